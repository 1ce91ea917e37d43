import type { SendMailOptions } from 'nodemailer';
import type { EmailSettings, UnsubscribeSettings } from '#infra/config/channel-settings.ts';
import type { CallOutcome, Watched } from '#infra/config/settings.ts';
import type { ReadContact } from '#infra/neighbours/profile.ts';
import { inSpan } from '#infra/trace/spans.ts';
import { asRefused, refusedBy } from '#shared/kernel/failure.ts';
import { MINUTE, type Now, SECOND } from '#shared/kernel/time.ts';
import { type Contact, emailOf, unsubscribeUrl } from '#shared/notification/email.ts';
import { type Adapter, type DeliveryJob, Permanent, Retryable, retryLater, Unreachable } from './channel.ts';

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

/** Sends one e-mail. @throws Retryable, Permanent; the signal's reason, if the signal was aborted */
type SendMail = (mail: SendMailOptions, signal: AbortSignal) => Promise<void>;

/** Open connections at most. A process sends as many e-mails at once as its queue has slots. */
const MAX_CONNECTIONS = 100;
/** E-mails over one connection. Servers end a connection after some hundreds. */
const MAX_MESSAGES = 100;
/** Time for which an unused connection stays open. Servers close theirs after minutes. */
const IDLE_MS = MINUTE;

/**
 * Opens a pool of connections to the mail server, which loads the library. No connection is opened before the first e-mail.
 *
 * A time limit covers the whole of an e-mail: its wait for a connection, TLS, login and data. At the limit, and at an abort, the
 * connection of this e-mail is cut and no other one.
 */
export async function openMailServer(settings: EmailSettings): Promise<SendMail> {
  const { createTransport } = (await import('nodemailer')).default;
  const { host, port, tls, login, timeoutMs } = settings;
  const transport = createTransport({
    pool: true,
    host,
    port,
    secure: tls === 'implicit',
    // Without this, a server that offers no STARTTLS, or an attacker who removes the offer, would get the e-mail in plain text.
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'none',
    tls: { minVersion: 'TLSv1.2' },
    ...(login === null ? {} : { auth: { user: login.user, pass: login.password }, forceAuth: true }),
    maxConnections: MAX_CONNECTIONS,
    maxMessages: MAX_MESSAGES,
    // A connection that the server has closed meanwhile is replaced once, before any byte of the e-mail is sent.
    maxRequeues: 1,
    idleTimeout: IDLE_MS,
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    dnsTimeout: timeoutMs,
    socketTimeout: timeoutMs + SECOND,
    // The text of a notification names no file and no address whose content may be attached.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return async (mail, signal) => {
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      await transport.sendMail({ ...mail, signal: AbortSignal.any([timeout, signal]) });
    } catch (error) {
      signal.throwIfAborted();
      if (timeout.aborted)
        throw new Retryable(`the mail server did not answer within ${timeoutMs} ms`, { cause: error });
      throw failureOf(error);
    }
  };
}

/** The parts of a library error that decide. Its message and the server's reply may quote the address, so no error of ours contains them. */
interface SmtpError {
  /** Code of the library, such as `EAUTH`. */
  code?: unknown;
  /** Reply code of the server; absent without a reply. */
  responseCode?: unknown;
  /** Reply of the server. */
  response?: unknown;
  /** SMTP command to which the server replied. */
  command?: unknown;
}

/** Commands that concern the addressee or the e-mail. A refusal of any other one concerns examhall or the server itself. */
const ABOUT_THE_MAIL = ['RCPT TO', 'DATA'];
/** Errors of the library that another attempt would repeat: the e-mail itself is not sendable. */
const UNSENDABLE = ['EENVELOPE', 'EMESSAGE'];

/**
 * Returns how a failed e-mail goes on. 4xx is retryable (RFC 5321, 4.2.1). 5xx to the recipient or the data is permanent: no such
 * address, or a refused text. Three cases differ:
 * - A full mailbox is emptied some day.
 * - An operator corrects a refusal of the login, the sender or the connection.
 * - 503 concerns the state of the session, and not the e-mail.
 */
function failureOf(error: unknown): Retryable | Permanent {
  const { code, responseCode, response, command } = (error ?? {}) as SmtpError;
  if (typeof responseCode !== 'number') {
    if (UNSENDABLE.includes(String(code)))
      return new Permanent('the mail server cannot take an e-mail of this form or size');
    return new Retryable('the mail server sent no complete reply', { cause: causeOf(code) });
  }
  const about = ABOUT_THE_MAIL.find((name) => name === command);
  const stage = about ?? stageOf(command);
  const message = `the mail server answered ${responseCode} to ${stage}`;
  if (stage === 'AUTH' && responseCode >= 500)
    return asRefused(new Retryable(message), { service: 'email', status: responseCode });
  if (responseCode < 500 || responseCode === 503 || about === undefined) return new Retryable(message);
  return isFull(responseCode, about, String(response ?? '')) ? new Retryable(message) : new Permanent(message);
}

/** RFC 5321, 4.5.3.1.10: 552 to a recipient means 452. X.2.2 (RFC 3463): the mailbox of the addressee is full. */
function isFull(responseCode: number, about: string, response: string): boolean {
  return (responseCode === 552 && about === 'RCPT TO') || /^\d{3}[ -]5\.2\.2\b/.test(response);
}

/** Returns the first word of a command. The others may contain an address or a password. */
function stageOf(command: unknown): string {
  return /^(AUTH|EHLO|HELO|STARTTLS|MAIL FROM|RSET)\b/.exec(String(command))?.[0] ?? 'the connection';
}

/** Returns an error with the code alone. */
function causeOf(code: unknown): Error {
  return Object.assign(new Error(`SMTP: ${typeof code === 'string' ? code : 'unknown error'}`), { code });
}
