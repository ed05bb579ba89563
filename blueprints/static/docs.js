"use strict";

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#documentation",
  deepLinking: true,
  docExpansion: "none",
  persistAuthorization: false,
  // The page may be open at another address than the document's server, and may only connect to its own.
  requestInterceptor: (request) => {
    const { pathname, search } = new URL(request.url, window.location.href);
    request.url = window.location.origin + pathname + search;
    return request;
  },
});
