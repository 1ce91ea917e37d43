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
