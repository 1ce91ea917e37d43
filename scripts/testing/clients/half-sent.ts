import { connect, type Socket } from 'node:net';

/** Requests whose body never comes, as an attacker sends them. */
export interface HalfSent {
  /** Number of requests whose head has passed and whose body the door is waiting for. */
  standing(): number;
  /** Number of replies with this status. */
  replies(status: number): number;
  /** Closes all connections. */
  end(): void;
}

export interface HalfSentPlan {
  port: number;
  count: number;
  /** Path of the route. */
  path?: string;
  /** Address in X-Forwarded-For; by default the header is absent. */
  address?: (index: number) => string;
  /** Length of the body that the head announces. */
  length?: number;
}

/** Pause before a connection that has ended is opened again (ms). */
const AGAIN_MS = 100;

/**
 * Opens `count` connections that announce a body and send none of it. A connection that ends is opened again until `end`, so that the
 * requests stand although the door ends slow bodies. Resolves once the door has answered each head.
 */
export async function openHalfSent(plan: HalfSentPlan): Promise<HalfSent> {
  const { port, count, path = '/v1/auth/login', address, length = 262_144 } = plan;
  const sockets = new Set<Socket>();
  const waiting = new Set<Socket>();
  const statuses = new Map<number, number>();
  let isOver = false;

  /** Opens one connection. `answered` is called with the first status line that the door sends on it. */
  function open(index: number, answered: () => void): void {
    const from = address === undefined ? '' : `X-Forwarded-For: ${address(index)}\r\n`;
    const socket = connect({ port, host: '127.0.0.1' });
    sockets.add(socket);
    socket.on('error', () => undefined);
    // The door answers 100 once the head has passed, which shows that it is waiting for the body.
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n${from}` +
        `Content-Length: ${length}\r\nExpect: 100-continue\r\n\r\n`,
    );
    socket.on('data', (chunk: Buffer) => {
      const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(chunk.toString('latin1'))?.[1] ?? 0);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 100) waiting.add(socket);
      else socket.destroy();
      answered();
    });
    socket.once('close', () => {
      sockets.delete(socket);
      waiting.delete(socket);
      answered();
      if (!isOver) setTimeout(() => isOver || open(index, () => undefined), AGAIN_MS).unref();
    });
  }

  await Promise.all(Array.from({ length: count }, (_, index) => new Promise<void>((resolve) => open(index, resolve))));
  return {
    standing: () => waiting.size,
    replies: (status) => statuses.get(status) ?? 0,
    end() {
      isOver = true;
      for (const socket of sockets) socket.destroy();
    },
  };
}
