import t from 'tap';
import { accountBatchBody, accountNotice, accountNoticeOrder } from './notices.ts';

const EVENT = { _id: 'event-1', accountId: 'account-1', at: new Date('2026-11-22T18:05:09.000Z') };

t.test('the owner is notified of a changed or set password and of a reused token, and of no other event', async (t) => {
  for (const type of ['PASSWORD_CHANGED', 'PASSWORD_SET', 'REFRESH_REUSE']) {
    t.match(accountNotice({ ...EVENT, type }), { eventId: 'event-1', accountId: 'account-1', event: type });
  }
  for (const type of ['STATUS_CHANGED', 'ROLE_CHANGED', 'LOGIN_LOCKED', 'ADDRESS_SLOWED', 'NEW_ADDRESS']) {
    t.equal(accountNotice({ ...EVENT, type }), null);
  }
  t.equal(accountNotice({ ...EVENT, accountId: null, type: 'PASSWORD_SET' }), null);
});

t.test('a notice goes to the account under the id of its event, with the time in Vietnam', async (t) => {
  const notice = { eventId: 'event-1', accountId: 'account-1', event: 'PASSWORD_CHANGED', at: EVENT.at } as const;
  t.match(accountNoticeOrder(notice), { queue: 'accountnotices', key: 'event-1', subject: 'account-1' });
  const body = accountBatchBody(notice);
  t.match(body, {
    notifications: [{ userId: 'account-1', type: 'ACCOUNT_SECURITY', title: 'Mật khẩu đã được thay đổi' }],
    event: {
      sourceService: 'auth-service',
      sourceEventId: 'event-1',
      type: 'ACCOUNT_SECURITY',
      preferenceType: 'ACCOUNT_SECURITY',
      targetUserIds: ['account-1'],
      payload: { event: 'PASSWORD_CHANGED', at: '2026-11-22T18:05:09.000Z' },
    },
  });
  t.match(body.notifications[0]?.content, 'lúc 01:05 ngày 23/11/2026 (giờ Việt Nam)');
});
