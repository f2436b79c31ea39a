#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "tprof._core", .m_size = 0};
PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&module); }
