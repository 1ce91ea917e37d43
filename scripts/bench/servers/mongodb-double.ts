import { createServer, type Socket } from 'node:net';
import { BSON, type Document, Long, Timestamp } from 'mongodb';
import { benchSitting } from '#scripts/bench/sitting.ts';
import { answerKeyOf } from '#shared/attempt/attempt.ts';
import { EVENT_TAIL_CAP, EVENT_TAIL_KEEP } from '#shared/attempt/limits.ts';

/**
 * A double of MongoDB that answers every command at once: reads with the sitting of the bench, and a save with this sitting after one
 * more save. It leaves the front door's own work as the only cost of a save.
 */
const port = Number(process.env.PORT);
const { attempt, paper } = benchSitting();

const CLUSTER = {
  clusterTime: new Timestamp({ t: 1_700_000_000, i: 1 }),
  signature: { hash: new BSON.Binary(Buffer.alloc(20)), keyId: Long.ZERO },
};
const HELLO = {
  helloOk: true,
  ismaster: true,
  isWritablePrimary: true,
  setName: 'double',
  hosts: [`127.0.0.1:${port}`],
  me: `127.0.0.1:${port}`,
  maxBsonObjectSize: 16_777_216,
  maxMessageSizeBytes: 48_000_000,
  maxWriteBatchSize: 100_000,
  logicalSessionTimeoutMinutes: 30,
  minWireVersion: 0,
  maxWireVersion: 25,
};

/** Adds the members that every reply of a replica set has. */
const reply = (document: Document): Buffer =>
  Buffer.from(BSON.serialize({ ...document, ok: 1, $clusterTime: CLUSTER, operationTime: CLUSTER.clusterTime }));

const found = (collection: string, document: Document): Buffer =>
  reply({ cursor: { firstBatch: [document], id: Long.ZERO, ns: `bench.${collection}` } });

const STAMP_BYTES = 11;
/** The first literal text of a guarded update is its stamp. */
const LITERAL = Buffer.from('\x02$literal\0\x0c\0\0\0', 'latin1');
let [events, eventSeq] = [attempt.events, attempt.eventSeq];

/** Returns the sitting after one more save. It has the stamp of the save, as if the save had been accepted. */
function saved(message: Buffer): Buffer {
  const at = message.indexOf(LITERAL);
  if (at < 0) throw new Error('a guarded update without a stamp');
  const from = at + LITERAL.length;
  const stamp = message.toString('latin1', from, from + STAMP_BYTES);
  const now = new Date();
  eventSeq += 1;
  const [first] = attempt.events;
  const tail = events.length > EVENT_TAIL_CAP ? events.slice(-EVENT_TAIL_KEEP) : events;
  events = first === undefined ? [] : [...tail, { ...first, seq: eventSeq, createdAt: now }];
  const key = answerKeyOf(eventSeq % paper.questions.length);
  const answer = attempt.answers[key];
  const answers = answer === undefined ? attempt.answers : { ...attempt.answers, [key]: { ...answer, updatedAt: now } };
  attempt.answers = answers;
  return reply({ value: { ...attempt, events, eventSeq, stamp } });
}

function answerTo(message: Buffer, body: number): Buffer {
  // The name of the command is the first key of its document.
  const name = message.toString('latin1', body + 5, message.indexOf(0, body + 5));
  if (name === 'findAndModify') return saved(message);
  if (name === 'find') {
    const { find } = BSON.deserialize(message.subarray(body, body + message.readInt32LE(body)));
    return find === 'attempt_papers' ? found(find, paper) : found(find, attempt);
  }
  return reply(name.toLowerCase() === 'hello' || name === 'ismaster' ? HELLO : {});
}

const OP_REPLY = 1;
const OP_QUERY = 2_004;
const OP_MSG = 2_013;
const HEAD = 16;

function send(socket: Socket, answering: number, opCode: number, prefix: Buffer, document: Buffer): void {
  const head = Buffer.alloc(HEAD);
  head.writeInt32LE(HEAD + prefix.length + document.length, 0);
  head.writeInt32LE(answering, 8);
  head.writeInt32LE(opCode, 12);
  socket.write(Buffer.concat([head, prefix, document]));
}

const ONE_DOCUMENT = Buffer.alloc(20);
ONE_DOCUMENT.writeInt32LE(8, 0);
ONE_DOCUMENT.writeInt32LE(1, 16);
const NO_FLAGS = Buffer.alloc(5);

function handle(socket: Socket, message: Buffer): void {
  const [id, opCode] = [message.readInt32LE(4), message.readInt32LE(12)];
  // The handshake of the driver.
  if (opCode === OP_QUERY) send(socket, id, OP_REPLY, ONE_DOCUMENT, reply(HELLO));
  else send(socket, id, OP_MSG, NO_FLAGS, answerTo(message, HEAD + NO_FLAGS.length));
}

createServer((socket) => {
  let rest: Buffer = Buffer.alloc(0);
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= 4 && rest.length >= rest.readInt32LE(0)) {
      const length = rest.readInt32LE(0);
      handle(socket, rest.subarray(0, length));
      rest = rest.subarray(length);
    }
  });
}).listen(port, '127.0.0.1', () => process.stdout.write('bench server is ready\n'));
process.on('SIGTERM', () => process.exit(0));
