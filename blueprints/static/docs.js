"use strict";

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#documentation",
  deepLinking: true,
  docExpansion: "none",
  persistAuthorization: false,
});
