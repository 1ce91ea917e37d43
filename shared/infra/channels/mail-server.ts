import type { SendMailOptions } from 'nodemailer';
import type { EmailSettings } from '#infra/config/channel-settings.ts';
import { asRefused } from '#shared/kernel/failure.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { Permanent, Retryable } from './channel.ts';

/** Sends one e-mail. @throws Retryable, Permanent; the signal's reason, if the signal was aborted */
export type SendMail = (mail: SendMailOptions, signal: AbortSignal) => Promise<void>;

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
export function failureOf(error: unknown): Retryable | Permanent {
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
