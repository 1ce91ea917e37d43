import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** A front door that can be opened and closed once. */
export interface Door {
  /** Resolves with the port once connections are accepted; port 0 takes a free one. Rejects when it is taken. */
  listen(port: number, host: string): Promise<number>;
  /**
   * Accepts nothing more and lets every request that has begun finish. True when all ended by themselves; after
   * `timeoutMs` the rest is aborted and cut off.
   */
  close(timeoutMs: number): Promise<boolean>;
}

const SWEEP_MS = 100;
/** How long a connection that was accepted may take to bring its first byte once the drain has begun. */
const SILENT_MS = 1_000;
/** After the abort: time for handlers to write their last words. */
const LAST_WORDS_MS = 500;

/** `cut` aborts the signals of all running requests. */
export function openDoor(server: Server, cut: () => void): Door {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return {
    async listen(port, host) {
      server.listen(port, host);
      await once(server, 'listening');
      return (server.address() as AddressInfo).port;
    },
    async close(timeoutMs) {
      if (!server.listening) return true;
      const closed = once(server, 'close').then(() => true);
      server.close();
      const silentUntil = performance.now() + SILENT_MS;
      const sweep = setInterval(() => {
        // A connection whose reply was on its way when the drain began becomes idle only later.
        server.closeIdleConnections();
        // Node does not count a connection that never sent a byte as idle; load balancers hold such ones open. One that
        // was accepted a moment ago may have a request in its socket, though, which nobody has read yet.
        if (performance.now() < silentUntil) return;
        for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
      }, SWEEP_MS);
      try {
        if (await Promise.race([closed, after(timeoutMs)])) return true;
        cut();
        if (!(await Promise.race([closed, after(LAST_WORDS_MS)]))) server.closeAllConnections();
        await closed;
        return false;
      } finally {
        clearInterval(sweep);
      }
    },
  };
}

function after(ms: number): Promise<false> {
  return new Promise((resolve) => setTimeout(resolve, ms, false).unref());
}
