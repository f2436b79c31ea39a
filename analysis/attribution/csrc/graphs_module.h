/* What Python sees of the passes over graphs, which loops_module.c lists. */
#ifndef TPROF_GRAPHS_MODULE_H
#define TPROF_GRAPHS_MODULE_H

#include "arrays.h"

PyObject *tprof_graphs_module_advance_paths(PyObject *self, PyObject *args);
PyObject *tprof_graphs_module_count_edges(PyObject *self, PyObject *args);
PyObject *tprof_graphs_module_count_until(PyObject *self, PyObject *args);
PyObject *tprof_graphs_module_find_last(PyObject *self, PyObject *args);
PyObject *tprof_graphs_module_raise_parents(PyObject *self, PyObject *args);

#endif
