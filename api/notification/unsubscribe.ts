import { bytesReply } from '#api/http/reply.ts';
import type { Call, RawReply, Reply, Route } from '#api/route.ts';
import { erasedAmong } from '#infra/mongo/erased-persons.ts';
import { patchPreferences } from '#infra/mongo/notification/preferences.ts';
import { eraseStoredMeanwhile } from '#infra/mongo/person/stored-meanwhile.ts';
import type { UnsubscribeQuery } from '#shared/generated/notification.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { readUnsubscribeToken, type Unsubscribe } from '#shared/notification/email.ts';
import type { NotificationDeps } from './deps.ts';
import { PREFERENCES } from './door-guards.ts';

const PATH = '/v1/notifications/unsubscribe';
const ACCEPT = [{ name: 'accept', required: false, description: 'With `text/html`, the reply is a page' }];

type UnsubscribeCall = Call<unknown, UnsubscribeQuery>;

/**
 * Routes of the links in e-mails. The signed token is the only proof: a mail program sends neither identity nor cookies. A GET changes
 * nothing, because programs that search e-mails for malware open each link.
 */
export function unsubscribeRoutes(deps: NotificationDeps): Route[] {
  const replies = (description: string) => [{ status: 200, schema: 'notification/unsubscribe-reply', description }];
  return [
    {
      method: 'GET',
      path: PATH,
      operation: 'showUnsubscribe',
      summary: 'Show what a link of an e-mail turns off; changes nothing',
      description:
        'Shows a page with a button, or JSON, about the channel that the token turns off. Programs that search e-mails for malware open each link, so that only the POST acts.',
      tag: PREFERENCES,
      guards: [],
      headers: ACCEPT,
      query: 'notification/unsubscribe-query',
      replies: replies('Channel that a POST turns off'),
      errors: [],
      handle: async (call: UnsubscribeCall) => {
        const permitted = permittedBy(deps, call);
        return isRejection(permitted) ? permitted : shown(call, permitted, WORDS.ask);
      },
    },
    {
      method: 'POST',
      path: PATH,
      operation: 'unsubscribe',
      summary: 'Turn a channel of a user off by the link of an e-mail (RFC 8058)',
      description:
        'Turns the channel of the token off in the preferences of its user. The token is the only proof; it is valid for 400 days. A repeat changes nothing.',
      tag: PREFERENCES,
      guards: [],
      headers: ACCEPT,
      query: 'notification/unsubscribe-query',
      takesAnyForm: true,
      replies: replies('Channel that is off now'),
      errors: [],
      handle: (call: UnsubscribeCall) => turnOff(deps, call),
    },
  ];
}

function permittedBy({ unsubscribeKey, now }: NotificationDeps, { query }: UnsubscribeCall): Unsubscribe | Rejection {
  const permitted = unsubscribeKey === null ? null : readUnsubscribeToken(unsubscribeKey, query.token, now());
  const message = 'must be the token of a link that has not expired';
  return permitted ?? { rejected: 'VALIDATION_FAILED', details: [{ path: '/token', message }] };
}

/** A repeat changes nothing. The reply is the same for an erased person, of whom nothing is stored again. */
async function turnOff(deps: NotificationDeps, call: UnsubscribeCall): Promise<Reply | RawReply | Rejection> {
  const permitted = permittedBy(deps, call);
  if (isRejection(permitted)) return permitted;
  const { userId, channel } = permitted;
  const erased = await erasedAmong(deps.mongo, [userId]);
  if (!erased.has(userId)) {
    const channels = { [channel]: false };
    await patchPreferences(deps.mongo, userId, { enabledTypes: {}, mutedUntil: undefined, channels });
    await eraseStoredMeanwhile(deps.mongo, [userId], { now: deps.now() });
  }
  return shown(call, permitted, WORDS.done);
}

const WORDS = {
  ask: { isOff: false, vi: 'Ngừng nhận thư thông báo?', en: 'Stop e-mails of notifications?' },
  done: {
    isOff: true,
    vi: 'Bạn sẽ không nhận thư thông báo nữa.',
    en: 'You will get no more e-mails of notifications.',
  },
} as const;

/** Nothing on the page is fetched, and its form may only be sent to this server. */
const HTML_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  Vary: 'Accept',
} as const;

function shown(
  { headers }: UnsubscribeCall,
  { channel }: Unsubscribe,
  words: (typeof WORDS)[keyof typeof WORDS],
): Reply | RawReply {
  if (!/\btext\/html\b/i.test(headers.accept ?? ''))
    return {
      status: 200,
      data: { channel, isOff: words.isOff },
      headers: { 'Cache-Control': 'no-store', Vary: 'Accept' },
    };
  return bytesReply(200, HTML_HEADERS, Buffer.from(pageOf(words)));
}

/** Returns the page. All of its text is constant. A form without an action is sent to the address of the page, with its token. */
function pageOf({ isOff, vi, en }: (typeof WORDS)[keyof typeof WORDS]): string {
  const button = isOff ? '' : '<form method="post"><button>Ngừng nhận · <span lang="en">Stop</span></button></form>\n';
  return `<!doctype html>
<html lang="vi">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${vi}</title>
</head>
<body>
<main>
<h1>${vi}</h1>
<p lang="en">${en}</p>
${button}</main>
</body>
</html>
`;
}
