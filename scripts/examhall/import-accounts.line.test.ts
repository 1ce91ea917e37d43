import t from 'tap';
import { readImportLine } from './import-accounts.ts';

const HASH = `$2b$10$${'a'.repeat(53)}`;
const LINE = { email: ' An@School.VN ', fullName: ' Nguyễn Thị An ', role: 'TEACHER', passwordHash: HASH };
const read = (line: unknown) => readImportLine(JSON.stringify(line));
const faultsOf = (line: unknown) => {
  const result = read(line);
  return result.kind === 'faulty' ? result.faults : [];
};

t.test('normalizes a valid import line like a registration', async (t) => {
  t.strictSame(read({ ...LINE, phone: '0912 345 678', legacyId: '42' }), {
    kind: 'row',
    row: {
      registration: { email: 'an@school.vn', fullName: 'Nguyễn Thị An', phone: '+84912345678', role: 'TEACHER' },
      legacyId: '42',
      passwordHash: HASH,
    },
  });
  t.match(read(LINE), { row: { registration: { phone: null }, legacyId: null } });
  t.match(read({ ...LINE, phone: null, legacyId: null }), { row: { registration: { phone: null }, legacyId: null } });
  const hash = HASH.replace('b', 'y');
  t.match(read({ ...LINE, role: 'ADMIN', passwordHash: hash }), { row: { registration: { role: 'ADMIN' } } });
});

t.test('reports every fault of an import line at once, without quoting its values', async (t) => {
  const bad = { email: 'an', fullName: 7, role: 'KING', phone: 'x', legacyId: 'a b', passwordHash: 'secret', age: 3 };
  const faults = faultsOf(bad);
  for (const about of [
    /^email/,
    /^fullName must be text/,
    /^role/,
    /^phone/,
    /^legacyId/,
    /^passwordHash/,
    /^unknown field "age"/,
  ]) {
    t.equal(faults.filter((fault) => about.test(fault)).length, 1, `${about}`);
  }
  t.equal(faults.length, 7);
  t.notMatch(faults.join(), 'secret');
  t.strictSame(faultsOf({}), ['email is missing', 'fullName is missing', 'role is missing', 'passwordHash is missing']);
  t.strictSame(faultsOf({ ...LINE, phone: 7, legacyId: 42 }), ['phone must be text', 'legacyId must be text']);
  for (const passwordHash of [7, null, '', `$2b$16$${'a'.repeat(53)}`, `$2x$10$${'a'.repeat(53)}`, `${HASH}a`]) {
    t.match(faultsOf({ ...LINE, passwordHash }), [/^passwordHash/], `${passwordHash}`);
  }
  t.strictSame(faultsOf({ ...LINE, [`${'k'.repeat(39)}😀`]: 1 }), [`unknown field "${'k'.repeat(39)}"`]);
  for (const text of ['', '[]', 'null', '"x"', '{', `{"passwordHash":"${HASH}"`]) {
    t.strictSame(readImportLine(text), { kind: 'faulty', faults: ['is not a JSON object'] }, text);
  }
});
