import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { CountedPeer } from './caller-address.ts';
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

/**
 * Reason why a connection was closed without a reply. `full`: the process has no room. `silent`: it made room for a newer one, because
 * it had sent no request. `address`: its network has its share already.
 */
export type DropReason = 'full' | 'silent' | 'address';

interface ConnectionLimits {
  max: number;
  /** Returns the network under which a connection is counted; null for one that no share limits. */
  peerOf: CountedPeer;
  dropped(reason: DropReason): void;
}

interface Connections {
  /** Records that a request has begun on the connection, which then never makes room for another. */
  spoke(socket: Socket): void;
}

/** One network may hold this part of the connections. */
const PART = 1 / 8;

/**
 * Limits the connections of a server. Sockets that never send a request cannot fill it, because the oldest of them makes room for each
 * new connection. A client that sends its request at once is never the oldest.
 */
export function limitConnections(server: Server, { max, peerOf, dropped }: ConnectionLimits): Connections {
  /** Connections without a request, the oldest first. */
  const silent = new Set<Socket>();
  const shares = new Map<string, number>();
  let open = 0;

  function makeRoom(newest: Socket): void {
    for (const socket of silent) {
      if (socket === newest) return;
      silent.delete(socket);
      socket.destroy();
      dropped('silent');
      return;
    }
  }

  /** Counts the connection for its network until it closes. Returns false and counts nothing beyond the share. */
  function enter(socket: Socket): boolean {
    const network = peerOf(socket.remoteAddress ?? '');
    if (network === null) return true;
    const held = shares.get(network) ?? 0;
    if (held + 1 > max * PART) return false;
    shares.set(network, held + 1);
    socket.once('close', () => {
      const left = (shares.get(network) ?? 1) - 1;
      if (left === 0) shares.delete(network);
      else shares.set(network, left);
    });
    return true;
  }

  server.maxConnections = max;
  server.on('drop', () => dropped('full'));
  server.on('connection', (socket: Socket) => {
    if (!enter(socket)) {
      socket.destroy();
      dropped('address');
      return;
    }
    open += 1;
    silent.add(socket);
    socket.once('close', () => {
      open -= 1;
      silent.delete(socket);
    });
    if (open >= max) makeRoom(socket);
  });
  return { spoke: (socket) => void silent.delete(socket) };
}
