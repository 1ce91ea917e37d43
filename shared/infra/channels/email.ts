import type { EmailSettings, UnsubscribeSettings } from '#infra/config/channel-settings.ts';
import type { CallOutcome, Watched } from '#infra/config/settings.ts';
import type { ReadContact } from '#infra/neighbours/contacts.ts';
import { inSpan } from '#infra/trace/spans.ts';
import { refusedBy } from '#shared/kernel/failure.ts';
import type { Now } from '#shared/kernel/time.ts';
import { type Contact, emailOf, unsubscribeUrl } from '#shared/notification/email.ts';
import { type Adapter, type DeliveryJob, Permanent, Retryable, retryLater, Unreachable } from './channel.ts';
import { openMailServer, type SendMail } from './mail-server.ts';

interface EmailDeps {
  readContact: ReadContact;
  now: Now;
  /** null: e-mails have no link that turns them off. */
  unsubscribe: Pick<UnsubscribeSettings, 'url' | 'key'> | null;
  /** Default: a pool of SMTP connections, opened by the first delivery. */
  open?: (settings: EmailSettings) => Promise<SendMail>;
}

/**
 * Returns an adapter that sends each delivery as one e-mail to the address that the profile service names. Its `Message-ID` depends on the
 * delivery alone, so that mail programs recognize a repeat.
 *
 * A person without an address is unreachable. What the profile service or the network fails to do is retryable.
 */
export function emailAdapter(settings: Watched<EmailSettings>, deps: EmailDeps): Adapter {
  const { readContact, open = openMailServer } = deps;
  let opened: Promise<SendMail> | undefined;
  return {
    channel: 'email',
    provider: 'smtp',
    async send(job, { signal }) {
      signal.throwIfAborted();
      const contact = await contactFor(readContact, job, { timeoutMs: settings.timeoutMs, signal });
      if (contact === null) throw new Unreachable('NO_ADDRESS');
      opened ??= open(settings);
      const sendMail = await opened;
      const messageId = messageIdOf(job, settings.from);
      const server = { 'server.address': settings.host, 'server.port': settings.port };
      await inSpan({ kind: 'CLIENT', name: 'SMTP', attributes: server }, () =>
        observed(settings, signal, () => sendMail(mailOf(settings, deps, { job, contact, messageId }), signal)),
      );
      return { providerId: messageId };
    },
  };
}

async function contactFor(
  readContact: ReadContact,
  { notification }: DeliveryJob,
  limits: { timeoutMs: number; signal: AbortSignal },
): Promise<Contact | null> {
  const read = await readContact(notification.userId, limits);
  switch (read.kind) {
    case 'found':
      return read.contact;
    case 'refused':
      throw refusedBy(retryLater(`the profile service answered ${read.reply.status}`, read.reply.retryAfterMs), {
        service: 'profile',
        status: read.reply.status,
      });
    default:
      throw new Retryable('the profile service sent no complete reply', { cause: read.error });
  }
}

function mailOf(
  settings: EmailSettings,
  { now, unsubscribe }: EmailDeps,
  { job, contact, messageId }: { job: DeliveryJob; contact: Contact; messageId: string },
) {
  const { notification } = job;
  const off = { userId: notification.userId, channel: 'email' } as const;
  const link = unsubscribe === null ? null : unsubscribeUrl(unsubscribe.url, unsubscribe.key, off, now());
  const written = emailOf(notification, { contact, sender: settings.senderName, unsubscribeUrl: link });
  return {
    from: { name: settings.senderName, address: settings.from },
    to: contact.email,
    messageId,
    date: new Date(now()),
    ...written,
    headers: {
      // Programs that answer for an absent person do not answer this (RFC 3834).
      'Auto-Submitted': 'auto-generated',
      'Content-Language': contact.language,
      ...(link === null ? {} : oneClick(link)),
    },
  };
}

/** Returns the headers by which mail programs show a button of their own (RFC 8058). */
function oneClick(link: string) {
  const value = { prepared: true, value: `<${link}>` };
  return { 'List-Unsubscribe': value, 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' };
}

/** Returns the same id at each attempt. Only characters of an id of ours remain, so the header cannot be left. */
function messageIdOf({ deliveryJobId }: DeliveryJob, from: string): string {
  const domain = from.slice(from.lastIndexOf('@') + 1);
  return `<${deliveryJobId.replace(/[^A-Za-z0-9-]/g, '.')}@${domain}>`;
}

/** Passes the end of a send to the observer, except one that its own caller aborted. @throws as `send` does */
async function observed(
  settings: Watched<EmailSettings>,
  signal: AbortSignal,
  send: () => Promise<void>,
): Promise<void> {
  const startedAt = performance.now();
  const end = (outcome: CallOutcome) => settings.called?.(outcome, (performance.now() - startedAt) / 1_000);
  try {
    await send();
    end('ok');
  } catch (error) {
    if (!signal.aborted) end(error instanceof Permanent ? 'refused' : outcomeOf(error));
    throw error;
  }
}

/** A server that answered and could not take the e-mail has failed; without an answer it is unanswered. */
function outcomeOf(error: unknown): CallOutcome {
  return error instanceof Retryable && error.cause === undefined ? 'failed' : 'unanswered';
}
