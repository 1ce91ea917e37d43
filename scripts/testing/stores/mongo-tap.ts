import { connect, createServer, type Socket } from 'node:net';
import { PROVIDER_SETTINGS } from '#infra/mongo/classifier/collections.ts';
import type { Teardown } from './open-test-mongo.ts';

/** A proxy to MongoDB that records the name of every command and can be cut. */
export interface MongoTap {
  /** Value for MONGODB_URL of the observed process. */
  url: string;
  /** Returns the commands since the last `clear`, without the driver's housekeeping and the front door's polls. */
  commands(): string[];
  /** Returns the bytes of commands and replies since the last `clear`, the driver's housekeeping included. */
  bytes(): { sent: number; received: number };
  clear(): void;
  /** Makes MongoDB unreachable through this proxy until `join`. */
  cut(): void;
  join(): void;
  /**
   * Keeps back replies until `release`: MongoDB hangs, and its connections stay open. With a text, only replies to commands that contain
   * it are kept back.
   */
  hold(about?: string): void;
  release(): void;
}

const OP_MSG = 2013;
const HEADER_BYTES = 16;
/** Position of the first name: behind header, flags, kind of the first section, length of its document and type of its first field. */
const FIRST_NAME_AT = HEADER_BYTES + 4 + 1 + 4 + 1;
const STRING = 2;
const HOUSEKEEPING = new Set(['hello', 'isMaster', 'ismaster', 'ping', 'endSessions']);
/** Collections that a front door polls every few seconds, independent of requests. */
const POLLED = new Set([PROVIDER_SETTINGS]);

/** A command, for example `find` of `attempts`; `collection` is empty for a command without one. */
interface SeenCommand {
  name: string;
  collection: string;
}

/** Opens a tap in front of the server at `mongodbUrl` and closes it at the end of the test. */
export async function openMongoTap(t: Teardown, mongodbUrl: string): Promise<MongoTap> {
  const target = new URL(mongodbUrl);
  const seen: SeenCommand[] = [];
  const open = new Set<Socket>();
  const bytes = { sent: 0, received: 0 };
  const replies = new Map<Socket, Socket>();
  const held = new Map<Socket, Socket>();
  let isCut = false;
  /** Commands that contain it get no reply. */
  let heldText: string | null = null;
  const holdBack = (upstream: Socket, client: Socket) => {
    held.set(upstream, client);
    upstream.unpipe(client).pause();
  };
  const server = createServer((client) => {
    if (isCut) return void client.destroy();
    const upstream = connect({ host: target.hostname, port: Number(target.port || 27_017) });
    const ended = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('error', ended).on('close', ended);
    }
    replies.set(upstream, client);
    upstream.on('close', () => {
      replies.delete(upstream);
      held.delete(upstream);
    });
    const read = commandReader((message) => {
      seen.push(firstField(message));
      if (heldText !== null && message.includes(heldText)) holdBack(upstream, client);
    });
    client.on('data', read);
    client.on('data', ({ length }) => (bytes.sent += length));
    upstream.on('data', ({ length }) => (bytes.received += length));
    client.pipe(upstream);
    upstream.pipe(client);
    if (heldText === '') holdBack(upstream, client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the tap has no port');
  // A direct connection: otherwise the driver would connect to the server's own address and bypass the tap.
  const url = `mongodb://127.0.0.1:${address.port}/?directConnection=true`;
  return {
    url,
    commands: () =>
      seen.filter(({ name, collection }) => !HOUSEKEEPING.has(name) && !POLLED.has(collection)).map(({ name }) => name),
    bytes: () => ({ ...bytes }),
    clear() {
      seen.length = 0;
      Object.assign(bytes, { sent: 0, received: 0 });
    },
    cut() {
      isCut = true;
      for (const socket of open) socket.destroy();
      open.clear();
    },
    join() {
      isCut = false;
    },
    hold(about = '') {
      heldText = about;
      if (about === '') for (const [upstream, client] of replies) holdBack(upstream, client);
    },
    release() {
      heldText = null;
      for (const [upstream, client] of held) upstream.pipe(client);
      held.clear();
    },
  };
}

function commandReader(onCommand: (message: Buffer) => void): (chunk: Buffer) => void {
  let buffer = Buffer.alloc(0);
  return (chunk) => {
    buffer = Buffer.concat([buffer, chunk]);
    while (buffer.length >= HEADER_BYTES && buffer.length >= buffer.readInt32LE(0)) {
      const message = buffer.subarray(0, buffer.readInt32LE(0));
      buffer = buffer.subarray(message.length);
      if (message.readInt32LE(12) !== OP_MSG) continue;
      onCommand(message);
    }
  };
}

/** Reads the first field of a command, which is its name. Its value is the collection, if the command has one. */
function firstField(message: Buffer): SeenCommand {
  const end = message.indexOf(0, FIRST_NAME_AT);
  const name = message.toString('utf8', FIRST_NAME_AT, end);
  if (message[FIRST_NAME_AT - 1] !== STRING) return { name, collection: '' };
  const from = end + 1 + 4;
  return { name, collection: message.toString('utf8', from, message.indexOf(0, from)) };
}
