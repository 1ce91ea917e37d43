import t from 'tap';
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
