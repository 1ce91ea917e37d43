import type { Order } from '#shared/kernel/command.ts';
import { HOUR } from '#shared/kernel/time.ts';

/** Body, progress and result of the auth service's commands, by queue. */
export interface AuthCommands {
  /** Notifies the owner of an account of a security event. */
  accountnotices: { body: AccountNotice; progress: null; result: { recipients: number } };
}

/** Security events of which the owner is notified. */
const TOLD = ['PASSWORD_CHANGED', 'PASSWORD_SET', 'REFRESH_REUSE'] as const;
type ToldEvent = (typeof TOLD)[number];

/** A notice to the owner of an account. */
export interface AccountNotice {
  /** Id of the security event; the receiver recognises a repeat by it. */
  eventId: string;
  accountId: string;
  event: ToldEvent;
  at: Date;
}

/** Delivery attempts of a notice. With the backoff of the outbox they span about a day. */
export const ACCOUNT_NOTICE_ATTEMPTS = 30;

/** Returns the notice of a security event, or null if its owner is not notified. */
export function accountNotice(event: {
  _id: string;
  accountId: string | null;
  type: string;
  at: Date;
}): AccountNotice | null {
  const told = TOLD.find((type) => type === event.type);
  if (told === undefined || event.accountId === null) return null;
  return { eventId: event._id, accountId: event.accountId, event: told, at: event.at };
}

/** Returns the command that delivers a notice. Its key is also the row's `_id`. */
export function accountNoticeOrder(notice: AccountNotice): Order<'accountnotices', AccountNotice> {
  return { queue: 'accountnotices', key: notice.eventId, subject: notice.accountId, body: notice };
}

export const AUTH_SERVICE = 'auth-service';
const PREFERENCE_TYPE = 'ACCOUNT_SECURITY';
const PAYLOAD_SCHEMA_VERSION = 1;

/**
 * Returns the body of the batch that sends a notice to the notification service. It contains no password, token, address, e-mail or name.
 * The auth service is no producer of events: it creates notifications, and the event in the batch makes a repeat harmless.
 */
export function accountBatchBody({ eventId, accountId, event, at }: AccountNotice) {
  const { title, content } = TEXTS[event];
  const common = { preferenceType: PREFERENCE_TYPE, entity: 'Account', entityId: accountId };
  return {
    notifications: [{ userId: accountId, type: PREFERENCE_TYPE, title, content: content(inVietnam(at)), ...common }],
    event: {
      sourceService: AUTH_SERVICE,
      sourceEventId: eventId,
      type: PREFERENCE_TYPE,
      ...common,
      targetUserIds: [accountId],
      payload: { schemaVersion: PAYLOAD_SCHEMA_VERSION, event, at: at.toISOString() },
    },
  };
}

const TEXTS = {
  PASSWORD_CHANGED: {
    title: 'Mật khẩu đã được thay đổi',
    content: (when: string) =>
      `Mật khẩu tài khoản của bạn đã được thay đổi lúc ${when}. Nếu không phải bạn, hãy liên hệ nhà trường ngay.`,
  },
  PASSWORD_SET: {
    title: 'Mật khẩu đã được đặt lại',
    content: (when: string) =>
      `Quản trị viên đã đặt lại mật khẩu tài khoản của bạn lúc ${when}. Nếu bạn không yêu cầu, hãy liên hệ nhà trường ngay.`,
  },
  REFRESH_REUSE: {
    title: 'Một phiên đăng nhập đã bị kết thúc',
    content: (when: string) =>
      `Một phiên đăng nhập của bạn đã bị kết thúc lúc ${when} vì có dấu hiệu bị người khác sử dụng. Hãy đăng nhập lại và đổi mật khẩu.`,
  },
} as const satisfies Record<ToldEvent, object>;

/** Vietnam has UTC+7 all year. */
const VIETNAM_OFFSET_MS = 7 * HOUR;

/** Returns a time as `14:05 ngày 23/11/2026 (giờ Việt Nam)`: a notice may be read days later. */
function inVietnam(at: Date): string {
  const [date = '', time = ''] = new Date(at.getTime() + VIETNAM_OFFSET_MS).toISOString().split('T');
  return `${time.slice(0, 5)} ngày ${date.split('-').reverse().join('/')} (giờ Việt Nam)`;
}
