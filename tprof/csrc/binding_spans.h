/* Spans of OpenTelemetry as instances, and where their threads' contexts change. */
#ifndef TPROF_BINDING_SPANS_H
#define TPROF_BINDING_SPANS_H

#include "binding.h"

/* How to find the current span's instance. Set once, by the first interpreter that follows spans; no other one's are. */
struct tprof_span_source {
    PyInterpreterState *interpreter; /* NULL: no spans are followed */
    PyTypeObject *type;              /* of `_core.Span` */
    PyObject *variable;              /* the ContextVar of OpenTelemetry's context, which is a dict */
    PyObject *key;                   /* of the current span in it */
    PyObject *attribute;             /* of the span: its instance */
};
extern struct tprof_span_source tprof_span_source;

void tprof_span_attached(void);
void tprof_span_detached(void);
void tprof_span_context_entered(const PyObject *context);
void tprof_span_context_left(const PyObject *context);

#endif
