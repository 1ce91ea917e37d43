import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { TRANSACTION_NAMES } from './transaction-names.ts';
import type { SeenTransaction } from './transaction-notes.ts';
import { transactionRows, unknownTransactions, withTransactions } from './transactions.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const SUBMIT: SeenTransaction = {
  kind: 'submit.ts markSubmitted',
  commands: 3,
  shards: 2,
  statements: ['attempts update', 'commands insert'],
};
const refused = { ...SUBMIT, commands: 2, shards: 1, statements: ['attempts update'] };

t.test('the record of a transaction keeps the largest numbers and all statements', async (t) => {
  const { kind, ...recorded } = SUBMIT;
  t.strictSame(withTransactions({}, [refused, SUBMIT, refused]), { [kind]: recorded });
  t.match(withTransactions({}, [SUBMIT, { ...SUBMIT, shards: 9, commands: 40 }]), {
    [kind]: { shards: 'many', commands: 'many' },
  });
  t.match(withTransactions({}, [{ ...SUBMIT, shards: 9 }, { ...SUBMIT, shards: 'all' }, SUBMIT]), {
    [kind]: { shards: 'all', commands: 3 },
  });
});

t.test('a transaction without a name is reported, and refused in the document', async (t) => {
  t.strictSame(unknownTransactions([SUBMIT, refused], {}), [SUBMIT.kind]);
  t.strictSame(unknownTransactions([SUBMIT], { [SUBMIT.kind]: 'submit' }), []);
  const recorded = withTransactions({}, [SUBMIT]);
  t.throws(() => transactionRows(recorded, {}), /no name for: submit.ts markSubmitted/);
  t.strictSame(transactionRows(recorded, { [SUBMIT.kind]: 'submit', other: 'not recorded' }), [
    ['submit', '`attempts`, `commands`', '3', '2'],
  ]);
});

t.test('each file of the product that opens a transaction has a name in the table', async (t) => {
  const sources = ['shared', 'api', 'workers', 'scripts/examhall'].flatMap((folder) =>
    readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((file) => `${folder}/${file}`),
  );
  const openers = sources
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .filter((file) => /import .*\binTransaction(?:Of)?\b/.test(readFileSync(path.join(ROOT, file), 'utf8')));
  t.ok(openers.length > 10);
  const named = new Set(Object.keys(TRANSACTION_NAMES).map((kind) => kind.split(' ', 1)[0]));
  // The kernel's transactions are named by their queues.
  t.strictSame(
    openers.filter((file) => !named.has(file)),
    ['workers/settle.ts'],
  );
});

t.test('each queue has a name in the table', async (t) => {
  const named = QUEUES.filter((queue) => `queue ${queue}` in TRANSACTION_NAMES);
  t.strictSame(named, QUEUES);
});
