import type { Socket } from 'node:net';
import { PROVIDER_SETTINGS } from '#infra/mongo/classifier/collections.ts';
import { HEADER_BYTES, isCommand, onMessages, openMongoProxy } from './flawed-mongo.ts';
import type { Teardown } from './open-test-mongo.ts';

export type MongoTap = Awaited<ReturnType<typeof openMongoTap>>;

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

/** Opens a proxy to MongoDB that records the name of every command and can be cut, until the end of the test. */
export async function openMongoTap(t: Teardown, mongodbUrl: string) {
  const seen: SeenCommand[] = [];
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
  const { url, open } = await openMongoProxy(t, mongodbUrl, (client, upstream) => {
    if (isCut) return void client.destroy();
    replies.set(upstream, client);
    upstream.on('close', () => {
      replies.delete(upstream);
      held.delete(upstream);
    });
    onMessages(client, (message) => {
      if (!isCommand(message)) return;
      seen.push(firstField(message));
      if (heldText !== null && message.includes(heldText)) holdBack(upstream, client);
    });
    client.on('data', ({ length }) => (bytes.sent += length)).pipe(upstream);
    upstream.on('data', ({ length }) => (bytes.received += length)).pipe(client);
    if (heldText === '') holdBack(upstream, client);
  });
  return {
    url,
    /** Returns the commands since the last `clear`, without the driver's housekeeping and the front door's polls. */
    commands: () =>
      seen.filter(({ name, collection }) => !HOUSEKEEPING.has(name) && !POLLED.has(collection)).map(({ name }) => name),
    /** Returns the bytes of commands and replies since the last `clear`, the driver's housekeeping included. */
    bytes: () => ({ ...bytes }),
    clear() {
      seen.length = 0;
      Object.assign(bytes, { sent: 0, received: 0 });
    },
    /** Makes MongoDB unreachable through this proxy until `join`. */
    cut() {
      isCut = true;
      for (const socket of open) socket.destroy();
    },
    join() {
      isCut = false;
    },
    /**
     * Keeps back replies until `release`: MongoDB hangs, and its connections stay open. With a text, only replies to commands that contain
     * it are kept back.
     */
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

/** Reads the first field of a command, which is its name. Its value is the collection, if the command has one. */
function firstField(message: Buffer): SeenCommand {
  const end = message.indexOf(0, FIRST_NAME_AT);
  const name = message.toString('utf8', FIRST_NAME_AT, end);
  if (message[FIRST_NAME_AT - 1] !== STRING) return { name, collection: '' };
  const from = end + 1 + 4;
  return { name, collection: message.toString('utf8', from, message.indexOf(0, from)) };
}
