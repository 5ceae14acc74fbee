/* page_impl.h: what page.c and page_plot.c share. */
#ifndef DN_PAGE_IMPL_H
#define DN_PAGE_IMPL_H

#include "page.h"

DN_MUST_USE dn_status dn_page_escape(dn_out *out, const char *s, dn_err *err);

#endif
