// Draws the reference from the document of this process.

SwaggerUIBundle({
  url: '/openapi.json',
  domNode: document.getElementById('reference'),
  presets: [SwaggerUIBundle.presets.apis],
  layout: 'BaseLayout',
  deepLinking: true,
  displayOperationId: true,
  docExpansion: 'list',
  filter: true,
  // A badge of the package would send the address of the document to another host.
  validatorUrl: null,
  // The address of the document is fixed: a link with another one would show a foreign document under this origin.
  queryConfigEnabled: false,
  // Tokens that are typed into the page are gone when it is closed.
  persistAuthorization: false,
});
