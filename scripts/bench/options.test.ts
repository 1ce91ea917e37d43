import t from 'tap';
import { type Choice, readOptions, usageOf } from './options.ts';

const CHOICE: Choice = {
  measures: [
    { name: 'save', mongodb: true },
    { name: 'http', mongodb: false },
    { name: 'inbox', mongodb: true },
  ],
  engines: ['rust', 'python'],
  env: {},
};

t.test('the bench runs each measure on every engine, and a measure without MongoDB once', async (t) => {
  t.strictSame(readOptions([], CHOICE), {
    runs: [
      { measure: 'save', on: 'rust' },
      { measure: 'save', on: 'python' },
      { measure: 'http', on: null },
      { measure: 'inbox', on: 'rust' },
      { measure: 'inbox', on: 'python' },
    ],
    quick: false,
    whole: true,
    resume: false,
  });
});

t.test('a bench run with --only, --engine, EXAMHALL_ENGINE or --quick is not whole', async (t) => {
  t.strictSame(readOptions(['--only', 'inbox', '--only', 'http', '--engine', 'python'], CHOICE), {
    runs: [
      { measure: 'http', on: null },
      { measure: 'inbox', on: 'python' },
    ],
    quick: false,
    whole: false,
    resume: false,
  });
  t.match(readOptions(['--quick'], CHOICE), { quick: true, whole: false });
  t.match(readOptions(['--only', 'save'], CHOICE), { whole: false });
  const forced = { ...CHOICE, env: { EXAMHALL_ENGINE: 'python' } };
  t.match(readOptions(['--only', 'save'], forced).runs, [{ measure: 'save', on: 'python' }]);
  t.match(readOptions([], forced), { whole: false });
  t.match(readOptions(['--only', 'save', '--engine', 'rust'], forced).runs, [{ measure: 'save', on: 'rust' }]);
});

t.test('the bench orders engines by the machine and not by the options', async (t) => {
  const { runs } = readOptions(['--only', 'save', '--engine', 'python', '--engine', 'rust'], CHOICE);
  t.strictSame(runs, [
    { measure: 'save', on: 'rust' },
    { measure: 'save', on: 'python' },
  ]);
});

t.test('the bench measures only the server of MONGODB_URL if it is set', async (t) => {
  const served: Choice = { ...CHOICE, engines: [], env: { MONGODB_URL: 'mongodb://x', EXAMHALL_ENGINE: 'rust' } };
  const { runs, whole } = readOptions([], served);
  t.strictSame(
    runs.map(({ on }) => on),
    ['MONGODB_URL', null, 'MONGODB_URL'],
  );
  t.equal(whole, true);
  t.throws(() => readOptions(['--engine', 'rust'], served), { message: /MONGODB_URL/ });
  t.match(readOptions([], { ...CHOICE, env: { MONGODB_URL: '' } }).runs, [{ on: 'rust' }], 'empty');
});

t.test('the bench refuses unknown names and lists the known ones', async (t) => {
  t.throws(() => readOptions(['--only', 'sav'], CHOICE), { message: /unknown measure sav; known: save, http, inbox/ });
  t.throws(() => readOptions(['--engine', 'mongod'], CHOICE), { message: /run mongod; it can run: rust, python/ });
  t.throws(() => readOptions([], { ...CHOICE, env: { EXAMHALL_ENGINE: 'Rust' } }), { message: /cannot run Rust/ });
  t.throws(() => readOptions([], { ...CHOICE, engines: [] }), { message: /no MongoDB/ });
  t.throws(() => readOptions(['--fast'], CHOICE));
});

t.test('only a full run can be resumed', async (t) => {
  t.match(readOptions(['--resume'], CHOICE), { resume: true, whole: true });
  t.throws(() => readOptions(['--resume', '--quick'], CHOICE), /--resume continues a full run/);
  t.throws(() => readOptions(['--resume', '--only', 'save'], CHOICE), /--resume continues a full run/);
});

t.test('a measure that runs only by name is no part of a full run', async (t) => {
  const choice: Choice = { ...CHOICE, measures: [...CHOICE.measures, { name: 'morning', mongodb: true, named: true }] };
  t.strictSame(readOptions([], choice), readOptions([], CHOICE));
  const expected = { runs: [{ measure: 'morning', on: 'rust' }], quick: true, whole: false };
  t.match(readOptions(['morning', '--quick', '--engine', 'rust'], choice), expected);
  t.match(readOptions(['--only', 'morning', '--quick', '--engine', 'rust'], choice), expected);
  t.throws(() => readOptions(['evening'], choice), { message: /unknown measure evening; known: .*morning/ });
});

t.test('the usage of the bench lists each measure, those that run only by name last', async (t) => {
  const measures = [{ name: 'long', mongodb: true, named: true }, ...CHOICE.measures];
  t.match(usageOf({ measures }), /all but long\)\n[\s\S]*\nMeasures: save, http, inbox, long\n/);
});
