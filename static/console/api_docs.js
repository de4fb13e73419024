// Shows the API's description; what is tried out is sent with the page's CSRF token.

const place = document.querySelector("#swagger-ui");

/** Adds the token to a request that stays on this origin. */
function signed(request) {
  if (new URL(request.url, location.href).origin === location.origin) {
    request.headers["X-CSRFToken"] = place.dataset.csrf;
  }
  return request;
}

window.SwaggerUIBundle({
  url: place.dataset.description,
  domNode: place,
  deepLinking: true,
  validatorUrl: null,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  requestInterceptor: signed,
});
