import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { CountedPeer } from './caller-address.ts';

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

export interface Connections {
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
