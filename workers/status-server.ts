import { createServer, type Server } from 'node:http';
import type { Log } from '#infra/log/log.ts';
import type { Metrics } from '#infra/metrics/metrics.ts';
import { type Secrets, secretCheck } from '#shared/kernel/secret.ts';

export interface StatusServerOptions {
  port: number;
  host: string;
  metrics: Metrics;
  log: Log;
  /** In production, `/metrics` requires OPS_READ_TOKEN as bearer token. A worker does not have OPS_TOKEN, which can act. */
  opsReadToken: Secrets | undefined;
  production: boolean;
  /** Checks again at each call that the worker claims commands and that MongoDB answers. Bounded; never rejects. */
  isReady: () => Promise<boolean>;
}

const NO_SNIFFING = ['X-Content-Type-Options', 'nosniff'] as const;
/** Reply to bytes that are not HTTP. */
const UNREADABLE = `HTTP/1.1 400 Bad Request\r\n${NO_SNIFFING.join(': ')}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`;

/**
 * Opens a worker's own `/healthz`, `/readyz` and `/metrics`, for platforms that probe every process; only with METRICS_PORT.
 * Replies contain only a state word or numbers. Node answers HEAD as it does GET, without the body.
 * A worker without METRICS_PORT does not load this file: an import of `node:http` loads Node's client of HTTP as well.
 */
export function openStatusServer(options: StatusServerOptions): Server {
  const isToken = secretCheck(options.opsReadToken);
  const mayScrape = (authorization = '') =>
    !options.production || (authorization.startsWith('Bearer ') && isToken?.(authorization.slice(7)) === true);
  // Node would answer a request without Host itself, and without the header below.
  const server = createServer({ requireHostHeader: false }, (request, response) => {
    response.setHeader(...NO_SNIFFING);
    const path = request.url?.split('?')[0];
    if (path === '/healthz') return void response.end('ok\n');
    if (path === '/readyz') {
      return void options.isReady().then((ready) => {
        response.statusCode = ready ? 200 : 503;
        response.end(ready ? 'ready\n' : 'unready\n');
      });
    }
    if (path !== '/metrics') {
      response.statusCode = 404;
      return void response.end();
    }
    if (!mayScrape(request.headers.authorization)) {
      response.statusCode = 401;
      return void response.end();
    }
    options.metrics.render().then(
      (text) => response.setHeader('content-type', options.metrics.contentType).end(text),
      () => response.destroy(),
    );
  });
  server.on('clientError', (_error, socket) => {
    if (socket.writable) socket.end(UNREADABLE);
    else socket.destroy();
  });
  // If the port is taken or forbidden, the worker continues; only its probes and metrics are missing.
  server.on('error', (err) => options.log.error({ err, port: options.port }, 'METRICS_PORT could not be opened'));
  server.listen(options.port, options.host);
  server.unref();
  return server;
}
