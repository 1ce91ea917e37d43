import { type MailOptions, type MailStandIn, openMailStandIn } from '#scripts/sandbox/neighbours/mail.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

export interface MailReceiver extends MailStandIn {
  /** Environment that makes this server the one of the `email` channel. */
  env: NodeJS.ProcessEnv;
}

/** Opens the mail server of the stand-ins, by default without a login, until the end of the test. */
export async function openMailReceiver(t: Teardown, options: MailOptions = {}): Promise<MailReceiver> {
  const server = await openMailStandIn({ login: null, ...options });
  t.teardown(() => {
    server.cutAll();
    return server.close();
  });
  return {
    ...server,
    env: {
      NOTIFICATION_EMAIL_HOST: '127.0.0.1',
      NOTIFICATION_EMAIL_PORT: String(server.port),
      NOTIFICATION_EMAIL_TLS: 'none',
      NOTIFICATION_EMAIL_FROM: 'no-reply@school.example',
    },
  };
}

/** Returns the headers of an e-mail by their names in lower case, unfolded. Repeats are joined by a line break. */
export function mailHeaders(raw: string): Map<string, string> {
  const headers = new Map<string, string>();
  const head = raw.slice(0, raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ');
  for (const line of head.split('\r\n')) {
    const [name = '', ...value] = line.split(':');
    const known = headers.get(name.toLowerCase());
    const text = value.join(':').trim();
    headers.set(name.toLowerCase(), known === undefined ? text : `${known}\n${text}`);
  }
  return headers;
}
