// Health check of the image: exits with 0 if the process of this container answers `/healthz`, or the path of the argument, with 200.
// A front door answers on PORT, a worker on METRICS_PORT.
import { get } from 'node:http';

const { PORT = '3000', METRICS_PORT = '' } = process.env;
const [path = '/healthz'] = process.argv.slice(2);
/** Time limit of one call, shorter than that of the health check (ms). */
const TIMEOUT_MS = 4_000;

const status = (await statusOf(PORT)) ?? (METRICS_PORT === '' ? null : await statusOf(METRICS_PORT));
process.exitCode = status === 200 ? 0 : 1;

/** Returns the status of the reply, 0 without a reply in time, and null if no process listens on the port. */
function statusOf(port) {
  return new Promise((resolve) => {
    const call = get({ host: '127.0.0.1', port, path, timeout: TIMEOUT_MS }, (reply) => {
      reply.resume();
      resolve(reply.statusCode);
    });
    call.on('timeout', () => call.destroy());
    call.on('error', (error) => resolve(error.code === 'ECONNREFUSED' ? null : 0));
  });
}
