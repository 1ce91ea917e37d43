import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { BSON, type Document } from 'mongodb';
import type { Teardown } from './open-test-mongo.ts';

/**
 * A fault of a server. Both functions change their document in place; `reply` receives the command as it was sent to the real server.
 * If `command` returns a document, that is the reply and the server never receives the command; SILENCE means no reply at all.
 */
export interface Flaw {
  // biome-ignore lint/suspicious/noConfusingVoidType: most flaws return nothing
  command?(command: Document): Document | typeof SILENCE | undefined | void;
  reply?(reply: Document, command: Document): void;
}

export const SILENCE = Symbol('silence');

const OP_MSG = 2013;
export const HEADER_BYTES = 16;
const FLAGS_BYTES = 4;
/** Kind of a section of OP_MSG with a named list of documents. */
const LIST = 1;
/** Preserves BSON types that numbers and buffers of JavaScript would lose. */
const EXACT: BSON.DeserializeOptions = { promoteLongs: false, promoteBuffers: false, bsonRegExp: true };

/** Opens a proxy to MongoDB that passes every command and every reply through the flaw. Returns its URL for MONGODB_URL. */
export async function openFlawedMongo(t: Teardown, mongodbUrl: string, flaw: Flaw): Promise<string> {
  const { url } = await openMongoProxy(t, mongodbUrl, (client, upstream) => pass(client, upstream, flaw));
  return url;
}

/** Opens a proxy to MongoDB. `join` passes the bytes of a connection on. Returns the URL for MONGODB_URL and the open sockets. */
export async function openMongoProxy(
  t: Teardown,
  mongodbUrl: string,
  join: (client: Socket, upstream: Socket) => unknown,
): Promise<{ url: string; open: ReadonlySet<Socket> }> {
  const target = new URL(mongodbUrl);
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect({ host: target.hostname, port: Number(target.port || 27_017) });
    const pair = [client, upstream];
    const ended = () => {
      for (const socket of pair) open.delete(socket.destroy());
    };
    for (const socket of pair) open.add(socket.on('error', ended).on('close', ended));
    join(client, upstream);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  // A direct connection: otherwise the driver would connect to the server's own address and bypass the proxy.
  return { url: `mongodb://127.0.0.1:${port}/?directConnection=true`, open };
}

function pass(client: Socket, upstream: Socket, flaw: Flaw): void {
  const underWay = new Map<number, Document>();
  onMessages(client, (message) => {
    if (!isCommand(message)) return void upstream.write(message);
    const command = readDocument(message);
    const id = message.readInt32LE(4);
    const answer = flaw.command?.(command);
    if (answer === SILENCE) return;
    if (answer !== undefined) return void client.write(messageOf(answer, { id, to: id, flags: 0 }));
    underWay.set(id, command);
    upstream.write(messageOf(command, { id, to: 0, flags: flagsOf(message) }));
  });
  onMessages(upstream, (message) => {
    const to = message.readInt32LE(8);
    const command = underWay.get(to);
    underWay.delete(to);
    // A reply without a command belongs to the driver's heartbeat, which one command answers many times.
    if (command === undefined || flaw.reply === undefined) return void client.write(message);
    const reply = readDocument(message);
    flaw.reply(reply, command);
    client.write(messageOf(reply, { id: message.readInt32LE(4), to, flags: flagsOf(message) }));
  });
}

/** Calls `read` with each message that a socket receives. */
export function onMessages(socket: Socket, read: (message: Buffer) => void): void {
  let buffer = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    buffer = Buffer.concat([buffer, chunk]);
    while (buffer.length >= HEADER_BYTES && buffer.length >= buffer.readInt32LE(0)) {
      const message = buffer.subarray(0, buffer.readInt32LE(0));
      buffer = buffer.subarray(message.length);
      read(message);
    }
  });
}

export function isCommand(message: Buffer): boolean {
  return message.readInt32LE(12) === OP_MSG;
}

/** Returns the document of an OP_MSG, with its separate lists as fields. */
function readDocument(message: Buffer): Document {
  const lists: Document = {};
  let document: Document = {};
  for (let at = HEADER_BYTES + FLAGS_BYTES; at < message.length; ) {
    const kind = message[at];
    const from = at + 1;
    at = from + message.readInt32LE(from);
    if (kind !== LIST) {
      document = BSON.deserialize(message.subarray(from, at), EXACT);
      continue;
    }
    const nameEnd = message.indexOf(0, from + 4);
    const list: Document[] = [];
    for (let one = nameEnd + 1; one < at; one += message.readInt32LE(one)) {
      list.push(BSON.deserialize(message.subarray(one, one + message.readInt32LE(one)), EXACT));
    }
    lists[message.toString('utf8', from + 4, nameEnd)] = list;
  }
  return { ...document, ...lists };
}

/** Returns the flags of a message, which announce further replies without further requests. */
function flagsOf(message: Buffer): number {
  return message.readInt32LE(HEADER_BYTES);
}

function messageOf(document: Document, { id, to, flags }: { id: number; to: number; flags: number }): Buffer {
  const body = BSON.serialize(document, { ignoreUndefined: true });
  const head = Buffer.alloc(HEADER_BYTES + FLAGS_BYTES + 1);
  head.writeInt32LE(head.length + body.length, 0);
  head.writeInt32LE(id, 4);
  head.writeInt32LE(to, 8);
  head.writeInt32LE(OP_MSG, 12);
  head.writeInt32LE(flags, HEADER_BYTES);
  return Buffer.concat([head, body]);
}
