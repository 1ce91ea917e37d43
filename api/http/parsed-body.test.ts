import t from 'tap';
import { withIgnored } from './parsed-body.ts';

t.test('a reply names the fields of the body that were dropped, long ones by their beginning', async (t) => {
  const names = ['className', '😀'.repeat(65), `a${'😀'.repeat(100)}`, 'k'.repeat(1_000_000), '\ud800'];
  const dropped = [...names.map((name) => ({ path: '/x', name })), { path: '/payload/x', name: 'inner' }];
  const { data } = withIgnored({ status: 200, data: { a: 1 } }, dropped);
  const ignored = ['className', `${'😀'.repeat(64)}...`, `a${'😀'.repeat(63)}...`, `${'k'.repeat(128)}...`, '\ufffd'];
  t.strictSame(data, { a: 1, ignored });
  const reply = { status: 200, data: {} };
  t.equal(withIgnored(reply, []), reply);
});
