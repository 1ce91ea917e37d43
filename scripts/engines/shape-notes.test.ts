import { EventEmitter } from 'node:events';
import type { CommandStartedEvent, Document, MongoClient } from 'mongodb';
import t from 'tap';
import { noteOwnServer, openShapeNotes, readShapes, shapeOf, TEST_FILE } from './shape-notes.ts';

t.test('the shape of a command has its features, and neither collection, field, value nor limit', async (t) => {
  const shape = shapeOf({ find: 'attempts', filter: { examId: 'e-1', at: { $gte: new Date(1) } }, limit: 2 });
  t.equal(shape, 'command find, option find.limit, query $gte');
  const other = {
    find: 'commands',
    filter: { dueAt: { $gte: 5 } },
    limit: 9,
    maxTimeMS: 5,
    lsid: { id: 'a' },
    $db: 'x',
  };
  t.equal(shapeOf(other), shape);
  t.not(shapeOf({ ...other, autocommit: false }), shape, 'in a transaction');
  t.not(shapeOf({ ...other, autocommit: false, startTransaction: true }), shapeOf({ ...other, autocommit: false }));
  t.not(shapeOf({ ...other, filter: { $or: [{ a: 1 }, { b: { $gte: 1 } }] } }), shape);
});

t.test('each test file has the shapes of its commands, transactions, errors and servers', async (t) => {
  const folder = t.testdir();
  const client = new EventEmitter();
  const notes = openShapeNotes(folder);
  notes.watch(client as unknown as MongoClient);
  const before = process.env[TEST_FILE];
  t.teardown(() => {
    if (before === undefined) Reflect.deleteProperty(process.env, TEST_FILE);
    else process.env[TEST_FILE] = before;
  });
  let requestId = 0;
  const send = (command: Document, ending?: string, end?: object) => {
    requestId += 1;
    const [commandName] = Object.keys(command);
    notes.started({ requestId, commandName, command } as unknown as CommandStartedEvent);
    if (ending !== undefined) client.emit(ending, { requestId, ...end });
  };
  const count = (file: string) => readShapes(folder).get(file)?.size ?? 0;
  const insert = { insert: 'rows', documents: [{}] };

  process.env[TEST_FILE] = 'first';
  send(insert, 'commandSucceeded', { reply: { n: 1 } });
  send({ ...insert, insert: 'others' }, 'commandSucceeded', { reply: { n: 1 } });
  t.equal(count('first'), 1);
  send(insert, 'commandSucceeded', { reply: { n: 0, writeErrors: [{ code: 11_000 }] } });
  send(insert, 'commandFailed', { failure: { code: 112 } });
  t.equal(count('first'), 3, 'a duplicate and a conflict');
  send(insert, 'commandFailed', { failure: { code: 11_600 } });
  send(insert, 'commandFailed', { failure: new Error('the connection is closed') });
  t.equal(count('first'), 3, 'no fault that a test made');

  process.env[TEST_FILE] = 'second';
  const place = { lsid: { id: Buffer.from('a') }, txnNumber: 1, autocommit: false };
  send({ ...insert, ...place, startTransaction: true });
  send({ update: 'rows', updates: [], ...place });
  send({ commitTransaction: 1, ...place });
  t.equal(count('second'), 4, 'three commands and their transaction');
  t.equal(count('first'), 3);

  noteOwnServer(undefined);
  t.equal(count('second'), 4);
  noteOwnServer(folder);
  process.env[TEST_FILE] = 'third';
  noteOwnServer(folder);
  const [second, third] = ['second', 'third'].map((file) => readShapes(folder).get(file));
  t.equal(third?.size, 1);
  t.equal(third?.isSubsetOf(second ?? new Set()), false, 'no other file can replace it');
});
