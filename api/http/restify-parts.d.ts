declare module 'restify/lib/router.js' {
  /** The router of a server, without which restify's server does not start. */
  const Router: new (options: object) => object;
  export = Router;
}

declare module 'restify/lib/server.js' {
  import type { Server } from 'restify';

  const RestifyServer: new (options: object) => Server;
  export = RestifyServer;
}
