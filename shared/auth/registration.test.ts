import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { readRegistration, registrationFaults } from './registration.ts';

const ROLES = ['STUDENT', 'TEACHER'] as const;
const body = { email: ' An.Nguyen@Example.VN ', fullName: ' Nguyễn Văn An ' };

t.test('reading a registration returns its normalized fields', async (t) => {
  t.strictSame(readRegistration(body, ROLES), {
    email: 'an.nguyen@example.vn',
    fullName: 'Nguyễn Văn An',
    phone: null,
    role: 'STUDENT',
  });
  t.match(readRegistration({ ...body, phone: ' 0901 234 567 ', role: 'TEACHER' }, ROLES), {
    phone: '+84901234567',
    role: 'TEACHER',
  });
  for (const phone of [null, '', '  ']) t.match(readRegistration({ ...body, phone }, ROLES), { phone: null });
});

t.test('reading a registration returns every fault at once', async (t) => {
  const faulty = { email: 'nobody', fullName: ' ', phone: 'call me', role: 'ADMIN' };
  t.match(readRegistration(faulty, ROLES), {
    rejected: 'VALIDATION_FAILED',
    details: [{ path: '/email' }, { path: '/fullName' }, { path: '/phone' }, { path: '/role' }],
  });
  for (const role of ['ADMIN', 'PARENT', 'student', '']) {
    t.match(readRegistration({ ...body, role }, ROLES), { details: [{ path: '/role' }] }, role);
  }
  for (const fullName of ['', 'x'.repeat(201), 'a\u0000b', '\ud800', `a${'\u0301'.repeat(31)}`]) {
    t.match(readRegistration({ ...body, fullName }, ROLES), { details: [{ path: '/fullName' }] });
  }
  t.match(readRegistration({ ...body, fullName: 'x'.repeat(200) }, ROLES), { role: 'STUDENT' });
});

// Before: `Quản trị viên` with a zero width space behind it was accepted, and was mistaken for the office.
t.test('a name is one line that shows its letters in the order that it has', async (t) => {
  const nameOf = (fullName: string) => {
    const read = readRegistration({ ...body, fullName }, ROLES);
    return isRejection(read) ? null : read.fullName;
  };
  for (const hiding of [
    '\u200b',
    '\u202e',
    '\u2066',
    '\u00ad',
    '\u{e0041}',
    '\u2028',
    '\u2029',
    '\n',
    '\u0085',
    '\0',
  ]) {
    t.equal(nameOf(`Quản${hiding} trị viên`), null, `U+${hiding.codePointAt(0)?.toString(16)}`);
  }
  for (const trailing of ['\u200b', '\u202e', '\u2060']) t.equal(nameOf(`Quản trị viên${trailing}`), null);
  for (const blank of [' ', '\n', '\u00a0', '\ufeff', '\u200d', '\u3164']) t.equal(nameOf(`${blank}An${blank}`), 'An');
  for (const nothing of ['\u200d', '\u3164 \u200c']) t.equal(nameOf(nothing), null);
  t.equal(nameOf('می\u200cخواهم'), 'می\u200cخواهم', 'a joiner of another script stays');
});

t.test('a registration that failed its schema also gets the faults of its well-formed fields', async (t) => {
  const paths = (body: unknown, ...known: string[]) =>
    registrationFaults(
      body,
      known.map((path) => ({ path, message: 'is bad' })),
      ROLES,
    ).map(({ path }) => path);
  t.strictSame(paths({ email: 'nobody', fullName: 7, phone: 'x', role: 'ADMIN' }, '/fullName'), [
    '/email',
    '/phone',
    '/role',
  ]);
  t.strictSame(paths({ email: 'nobody', phone: null, role: null }, '/fullName'), ['/email']);
  t.strictSame(paths({ email: 'x'.repeat(2_000) }, '/email'), [], 'no fault is reported twice');
  t.strictSame(paths(body, '/extra'), []);
  for (const none of [null, 'x', 5, [], undefined]) t.strictSame(paths(none, ''), []);
});
