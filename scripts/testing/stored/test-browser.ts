import { createECDH, randomBytes } from 'node:crypto';
import { decrypt } from 'http_ece';
import { newId } from '#shared/kernel/ids.ts';
import { type PushSubscription, subscriptionOf } from '#shared/notification/push.ts';

/** A browser with keys of its own, which reads push messages by another implementation than the one that writes them. */
export interface TestBrowser {
  subscription: PushSubscription;
  /** The subscription as its page sends it. */
  request: { endpoint: string; keys: { p256dh: string; auth: string } };
  /** Returns the parsed message. @throws Error if it was encrypted for another browser */
  // biome-ignore lint/suspicious/noExplicitAny: messages are matched by tests, field by field
  read(body: Buffer): any;
}

/** Returns a new browser. Default endpoint: one that no push service has issued. */
export function testBrowser(endpoint = `https://fcm.googleapis.com/send/${newId()}`): TestBrowser {
  const key = createECDH('prime256v1');
  const p256dh = key.generateKeys('base64url');
  const auth = randomBytes(16).toString('base64url');
  const request = { endpoint, keys: { p256dh, auth } };
  return {
    request,
    subscription: subscriptionOf(request, new Date()),
    read: (body) =>
      JSON.parse(decrypt(body, { version: 'aes128gcm', privateKey: key, authSecret: auth }).toString('utf8')),
  };
}
