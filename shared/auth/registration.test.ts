import t from 'tap';
import { readRegistration } from './registration.ts';

const ROLES = ['STUDENT', 'TEACHER'] as const;
const body = { email: ' An.Nguyen@Example.VN ', fullName: ' Nguyễn Văn An ' };

t.test('what is asked for, normalized', async (t) => {
  t.strictSame(readRegistration(body, ROLES), {
    ...{ email: 'an.nguyen@example.vn', fullName: 'Nguyễn Văn An', phone: null, role: 'STUDENT' },
  });
  t.match(readRegistration({ ...body, phone: ' 0901 234 567 ', role: 'TEACHER' }, ROLES), {
    ...{ phone: '+84901234567', role: 'TEACHER' },
  });
  for (const phone of [null, '', '  ']) t.match(readRegistration({ ...body, phone }, ROLES), { phone: null });
});

t.test('every fault at once', async (t) => {
  const faulty = { email: 'nobody', fullName: ' ', phone: 'call me', role: 'ADMIN' };
  t.match(readRegistration(faulty, ROLES), {
    rejected: 'VALIDATION_FAILED',
    details: [{ path: '/email' }, { path: '/fullName' }, { path: '/phone' }, { path: '/role' }],
  });
  for (const role of ['ADMIN', 'PARENT', 'student', '']) {
    t.match(readRegistration({ ...body, role }, ROLES), { details: [{ path: '/role' }] }, role);
  }
  for (const fullName of ['', 'x'.repeat(201), 'a\u0000b', '\ud800']) {
    t.match(readRegistration({ ...body, fullName }, ROLES), { details: [{ path: '/fullName' }] });
  }
  t.match(readRegistration({ ...body, fullName: 'x'.repeat(200) }, ROLES), { role: 'STUDENT' });
});
