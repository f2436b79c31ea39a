/* What Python sees of the loops over instances, which loops_module.c lists. */
#ifndef TPROF_INSTANCES_MODULE_H
#define TPROF_INSTANCES_MODULE_H

#include "arrays.h"

PyObject *tprof_instances_module_fill(PyObject *self, PyObject *args);
PyObject *tprof_instances_module_find_members(PyObject *self, PyObject *args);
PyObject *tprof_instances_module_number(PyObject *self, PyObject *args);

#endif
