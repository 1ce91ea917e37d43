import {
  MongoBulkWriteError,
  MongoClientClosedError,
  MongoError,
  MongoExpiredSessionError,
  MongoInvalidArgumentError,
  MongoNetworkError,
  MongoNetworkTimeoutError,
  MongoNotConnectedError,
  MongoOperationTimeoutError,
  MongoServerClosedError,
  MongoServerError,
  MongoServerSelectionError,
  MongoStalePrimaryError,
  MongoTopologyClosedError,
  MongoUnexpectedServerResponseError,
  MongoWriteConcernError,
} from 'mongodb';
import t from 'tap';
import { isDuplicateKey, isOutage, outageInWords } from './faults.ts';

const socketError = (code: string) => Object.assign(new Error('This socket has been ended'), { code });
const server = (code: number, ...errorLabels: string[]) =>
  new MongoServerError({ message: 'said by the server', code, errorLabels });
/** As insertMany throws what one of its writes met. */
const bulk = (response: object) =>
  new MongoBulkWriteError(response as never, {} as ConstructorParameters<typeof MongoBulkWriteError>[1]);
/** Codes that no list of ours holds: only a label can tell what they mean. */
const UNKNOWN_CODE = 999_999;

t.test('what means that MongoDB is away', async (t) => {
  const transient = new MongoError('unlike others');
  transient.addErrorLabel('TransientTransactionError');
  for (const [name, error] of Object.entries({
    network: new MongoNetworkError('connection closed'),
    // As Node's socket throws it, past the driver: seen when mongod was killed between two commands.
    'write after the end': socketError('EPIPE'),
    'wrapped socket error': new Error('failed', { cause: socketError('ECONNRESET') }),
    'not primary': server(10107),
    'shutting down': server(91),
    'time limit': server(50),
    'no majority in time': new MongoWriteConcernError({ ok: 1, writeConcernError: { code: 64, errmsg: 'waited' } }),
    transient,
    'labelled: the transaction was thrown away': server(UNKNOWN_CODE, 'TransientTransactionError'),
    'labelled: the write may be made again': server(UNKNOWN_CODE, 'RetryableWriteError'),
    'labelled in a bulk': bulk(server(UNKNOWN_CODE, 'TransientTransactionError')),
    'lost in a bulk': bulk(new MongoNetworkError('connection closed')),
    'conflict in a bulk': bulk({ code: 112, message: '' }),
    'reply too late': new MongoNetworkTimeoutError('timed out'),
    'call too late': new MongoOperationTimeoutError('timed out'),
    'no server': new MongoServerSelectionError('none', {} as never),
    'server closed': new MongoServerClosedError(),
    'reply of another kind': new MongoUnexpectedServerResponseError('no cursor'),
    'primary of old': new MongoStalePrimaryError('an older election'),
    'topology closed': new MongoTopologyClosedError(),
    'not connected': new MongoNotConnectedError('not yet'),
    'client closed': new MongoClientClosedError(),
  })) {
    t.ok(isOutage(error), name);
  }
  // Lock timeout, not yet initialized, no majority to read, snapshot gone, transaction too old, overloaded, interrupted.
  for (const code of [24, 94, 134, 246, 290, 365, 11601]) t.ok(isOutage(server(code)), `code ${code}`);
  // Not allowed, password changed, cursor gone, writes blocked, sign in again, too many requests, Atlas says no, disk full.
  for (const code of [13, 18, 43, 371, 391, 462, 8000, 14031]) t.ok(isOutage(server(code)), `code ${code}`);
});

t.test('what does not', async (t) => {
  for (const [name, error] of Object.entries({
    'duplicate key': server(11000),
    'duplicate key in a bulk': bulk({ code: 11000, message: '', writeErrors: [] }),
    // The reply of one write may carry both: the key that is taken, and a majority that did not hear of it in time.
    'duplicate key with a label': server(11000, 'RetryableWriteError'),
    'refused document': server(121),
    'refused document with a label': server(121, 'TransientTransactionError'),
    'unknown code': server(UNKNOWN_CODE),
    'session of old': new MongoExpiredSessionError(),
    'bad query': server(2),
    'bad argument': new MongoInvalidArgumentError('no such option'),
    bug: new TypeError('undefined is no function'),
    'another code': socketError('ENOENT'),
    nothing: undefined,
  })) {
    t.notOk(isOutage(error), name);
  }
});

t.test('a duplicate key tells its index', async (t) => {
  const error = new MongoServerError({ message: 'E11000', code: 11000, keyPattern: { examId: 1, studentId: 1 } });
  t.ok(isDuplicateKey(error));
  t.ok(isDuplicateKey(error, ['examId', 'studentId']));
  t.notOk(isDuplicateKey(error, ['studentId']));
  t.notOk(isDuplicateKey(server(112)));
  t.ok(MongoBulkWriteError.prototype instanceof MongoServerError, 'a bulk write is one of the server errors');
});

t.test('for a person: why MongoDB cannot be worked with, and nothing of what is a bug', async (t) => {
  t.equal(
    outageInWords(new MongoNetworkError('connect ECONNREFUSED')),
    'MongoDB does not answer: connect ECONNREFUSED',
  );
  const refused = new MongoServerError({ message: 'Authentication failed.', code: 18 });
  t.equal(outageInWords(refused), 'MongoDB refuses the user that MONGODB_URL names: Authentication failed.');
  for (const bug of [new TypeError('undefined is no function'), server(2), undefined])
    t.equal(outageInWords(bug), undefined);
});
