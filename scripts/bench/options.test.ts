import t from 'tap';
import { type Choice, readOptions } from './options.ts';

const CHOICE: Choice = {
  measures: [
    { name: 'save', mongodb: true },
    { name: 'http', mongodb: false },
    { name: 'inbox', mongodb: true },
  ],
  engines: ['rust', 'python'],
  env: {},
};

t.test('each measure runs on every engine, and once where no MongoDB takes part', async (t) => {
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
  });
});

t.test('--only, --engine, EXAMHALL_ENGINE and --quick make a run that is not whole', async (t) => {
  t.strictSame(readOptions(['--only', 'inbox', '--only', 'http', '--engine', 'python'], CHOICE), {
    runs: [
      { measure: 'http', on: null },
      { measure: 'inbox', on: 'python' },
    ],
    quick: false,
    whole: false,
  });
  t.match(readOptions(['--quick'], CHOICE), { quick: true, whole: false });
  t.match(readOptions(['--only', 'save'], CHOICE), { whole: false });
  const forced = { ...CHOICE, env: { EXAMHALL_ENGINE: 'python' } };
  t.match(readOptions(['--only', 'save'], forced).runs, [{ measure: 'save', on: 'python' }]);
  t.match(readOptions([], forced), { whole: false });
  t.match(readOptions(['--only', 'save', '--engine', 'rust'], forced).runs, [{ measure: 'save', on: 'rust' }]);
});

t.test('the engines run in the order of the machine, whatever the order of the options', async (t) => {
  const { runs } = readOptions(['--only', 'save', '--engine', 'python', '--engine', 'rust'], CHOICE);
  t.strictSame(runs, [
    { measure: 'save', on: 'rust' },
    { measure: 'save', on: 'python' },
  ]);
});

t.test('MONGODB_URL names the only server', async (t) => {
  const served: Choice = { ...CHOICE, engines: [], env: { MONGODB_URL: 'mongodb://x', EXAMHALL_ENGINE: 'rust' } };
  const { runs, whole } = readOptions([], served);
  t.strictSame(
    runs.map(({ on }) => on),
    ['MONGODB_URL', null, 'MONGODB_URL'],
  );
  t.equal(whole, true);
  t.throws(() => readOptions(['--engine', 'rust'], served), { message: /MONGODB_URL/ });
  t.match(readOptions([], { ...CHOICE, env: { MONGODB_URL: '' } }).runs, [{ on: 'rust' }], 'set to nothing');
});

t.test('a wrong name is refused with those that there are', async (t) => {
  t.throws(() => readOptions(['--only', 'sav'], CHOICE), { message: /named sav; there are: save, http, inbox/ });
  t.throws(() => readOptions(['--engine', 'mongod'], CHOICE), { message: /run mongod; it can run: rust, python/ });
  t.throws(() => readOptions([], { ...CHOICE, env: { EXAMHALL_ENGINE: 'Rust' } }), { message: /cannot run Rust/ });
  t.throws(() => readOptions([], { ...CHOICE, engines: [] }), { message: /no MongoDB/ });
  t.throws(() => readOptions(['--fast'], CHOICE));
});
