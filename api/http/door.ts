import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { RunningRequests } from './exchange.ts';

/** A front door that can be opened and closed once. */
export interface Door {
  /** Resolves with the port once connections are accepted. Port 0 picks a free one. Rejects if the port is in use. */
  listen(port: number, host: string): Promise<number>;
  /**
   * Accepts no more connections and lets every running request finish, also one whose client has left. Returns true if all
   * finished in time. After `timeoutMs` it aborts the rest, closes their connections and returns false.
   */
  close(timeoutMs: number): Promise<boolean>;
}

const SWEEP_MS = 100;
/** Time (ms) after the drain begins for which a connection that has sent no byte stays open. */
const SILENT_MS = 1_000;
/** Time (ms) for handlers to finish their replies after the abort. */
const LAST_REPLIES_MS = 500;

/** Returns the door of `server`; `running` holds its requests. */
export function openDoor(server: Server, running: Pick<RunningRequests, 'cut' | 'idle'>): Door {
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
      const closed = once(server, 'close');
      // Once every connection is closed no request can begin, so the door is closed when the last handler has ended.
      const ended = closed.then(() => running.idle()).then(() => true);
      server.close();
      const silentUntil = performance.now() + SILENT_MS;
      const sweep = setInterval(() => {
        // A connection whose reply was being sent when the drain began becomes idle only later.
        server.closeIdleConnections();
        // Node does not count a connection that never sent a byte as idle, and load balancers hold such connections open.
        // Wait before closing them: a recently accepted connection may hold a request that Node has not read yet.
        if (performance.now() < silentUntil) return;
        for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
      }, SWEEP_MS);
      try {
        if (await Promise.race([ended, after(timeoutMs)])) return true;
        running.cut();
        if (!(await Promise.race([ended, after(LAST_REPLIES_MS)]))) server.closeAllConnections();
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
