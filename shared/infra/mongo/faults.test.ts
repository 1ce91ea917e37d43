import {
  MongoBulkWriteError,
  MongoError,
  MongoInvalidArgumentError,
  MongoNetworkError,
  MongoServerError,
  MongoWriteConcernError,
} from 'mongodb';
import t from 'tap';
import { isDuplicateKey, isOutage } from './faults.ts';

const socketError = (code: string) => Object.assign(new Error('This socket has been ended'), { code });
const server = (code: number) => new MongoServerError({ message: 'said by the server', code });

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
  })) {
    t.ok(isOutage(error), name);
  }
});

t.test('what does not', async (t) => {
  for (const [name, error] of Object.entries({
    'duplicate key': server(11000),
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
