import { existsSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { codeDigest, openMeasured, type Result } from './measured.ts';

const RESULT: Result = { measure: 'save', rows: [], servers: ['MongoDB: a server'] };

t.test('a resumed run begins with the results of the run that failed', async (t) => {
  const file = path.join(t.testdir(), 'bench', 'measured.json');
  openMeasured(file, 'code', { resume: false }).add('save on rust', RESULT);
  const resumed = openMeasured(file, 'code', { resume: true });
  t.strictSame(resumed.get('save on rust'), RESULT);
  t.equal(resumed.get('save on python'), undefined);
  resumed.forget();
  t.notOk(existsSync(file));
});

t.test('a new run begins empty, and replaces the results of the earlier one', async (t) => {
  const file = path.join(t.testdir(), 'measured.json');
  openMeasured(file, 'code', { resume: false }).add('save on rust', RESULT);
  const next = openMeasured(file, 'code', { resume: false });
  t.equal(next.get('save on rust'), undefined);
  next.add('http', RESULT);
  t.equal(openMeasured(file, 'code', { resume: true }).get('save on rust'), undefined);
});

t.test('refuses to resume other code, or nothing', async (t) => {
  const file = path.join(t.testdir(), 'measured.json');
  t.throws(() => openMeasured(file, 'code', { resume: true }), /no unfinished run/);
  openMeasured(file, 'code', { resume: false }).add('http', RESULT);
  t.throws(() => openMeasured(file, 'other code', { resume: true }), /the code has changed/);
});

t.test('the digest of the code is that of its files', async (t) => {
  const root = path.resolve(import.meta.dirname, '../..');
  t.match(codeDigest(root), /^[0-9a-f]{64}$/);
  t.equal(codeDigest(root), codeDigest(root));
});
