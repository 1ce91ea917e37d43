import { setTimeout as delay } from 'node:timers/promises';
import { decodeWords } from 'postal-mime';
import type { SMTPServerOptions, SMTPServerSession } from 'smtp-server';
import { type ArrivedMail, arrivedMail, listenForMail, mailHeaders } from '#scripts/http/local-mail.ts';
import { STAND_IN_MAIL_LOGIN } from './environment.ts';
import { type FailureSwitch, failureSwitch, type MailFailure, type MailStep, UNDISTURBED } from './failure.ts';

/** One e-mail that arrived. */
export interface KeptMail extends ArrivedMail {
  at: string;
  subject: string;
}

/** An e-mail that was taken, or a command that a failure met. */
export interface MailCall {
  /** Reply code; null: the connection was closed. */
  status: number | null;
  /** The addresses and the subject, or the step that failed and its address. */
  about: string;
}

/** A mail server that takes every e-mail and passes none on, unless a failure is scripted. */
export interface MailStandIn {
  port: number;
  /** The newest e-mails, oldest first. */
  mails: readonly KeptMail[];
  /** Number of calls by their status; `none`: the connection was closed. */
  answered: Readonly<Record<string, number>>;
  failure: Pick<FailureSwitch<MailFailure>, 'set' | 'shown'>;
  /** Ends the failure, and deletes e-mails and numbers. */
  forget(): void;
  close(): Promise<void>;
}

const MAX_KEPT_MAILS = 200;
const MAX_MAIL_BYTES = 1024 * 1024;

/** Opens the mail server on a port of 127.0.0.1; 0: any free one. `heard` receives each call. */
export async function openMailStandIn(port: number, heard?: (call: MailCall) => void): Promise<MailStandIn> {
  const mails: KeptMail[] = [];
  const answered: Record<string, number> = {};
  const failure = failureSwitch<MailFailure>();

  function note(call: MailCall): void {
    const key = call.status === null ? 'none' : String(call.status);
    answered[key] = (answered[key] ?? 0) + 1;
    heard?.(call);
  }

  /** Plays one step of a session, undisturbed or as the failure demands. `perform` is what the step effects. */
  async function play(
    { at, address, session }: { at: MailStep; address: string; session: SMTPServerSession },
    done: (error?: Error) => void,
    perform: () => void = () => undefined,
  ): Promise<void> {
    const { delayMs, performs, reply } = at === stepOf(failure.shown()) ? failure.next(address) : UNDISTURBED;
    if (delayMs > 0) await delay(delayMs, undefined, { ref: false });
    if (performs) perform();
    if (reply === 'real') return done();
    const status = reply === 'none' ? null : reply.status;
    note({ status, about: `${at} ${address}` });
    if (status === null) cut((connection) => connection.session === session);
    else done(refused(status, 'this failure is scripted'));
  }

  function take(mail: KeptMail): void {
    mails.push(mail);
    if (mails.length > MAX_KEPT_MAILS) mails.shift();
    note({ status: 250, about: `${mail.to.join(' ')}: ${mail.subject}` });
  }

  // Without a certificate: the channel sends in plain text to a loopback address alone.
  const options: SMTPServerOptions = {
    size: MAX_MAIL_BYTES,
    authOptional: false,
    onConnect: (session, done) => void play({ at: 'connection', address: session.remoteAddress, session }, done),
    onAuth({ username = '', password }, session, done) {
      void play({ at: 'sign-in', address: username, session }, (error) => {
        const { user } = STAND_IN_MAIL_LOGIN;
        if (error !== undefined) done(error);
        else if (username === user && password === STAND_IN_MAIL_LOGIN.password) done(null, { user });
        else done(refused(535, 'this is not the login of the stand-in'));
      });
    },
    onMailFrom: ({ address }, session, done) => void play({ at: 'sender', address, session }, done),
    onRcptTo: ({ address }, session, done) => void play({ at: 'recipient', address, session }, done),
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      let bytes = 0;
      stream.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes <= MAX_MAIL_BYTES) chunks.push(chunk);
      });
      stream.on('end', () => {
        if (bytes > MAX_MAIL_BYTES) return done(refused(552, 'too large'));
        const mail = keptMail(Buffer.concat(chunks).toString('utf8'), session);
        void play({ at: 'text', address: mail.to.join(' '), session }, done, () => take(mail));
      });
    },
  };
  const { server, port: opened, close } = await listenForMail(options, port);

  function cut(isMeant: (connection: { session: SMTPServerSession }) => boolean): void {
    for (const connection of server.connections) if (isMeant(connection)) connection._socket.destroy();
  }

  return {
    port: opened,
    mails,
    answered,
    failure: {
      shown: failure.shown,
      set(wanted) {
        failure.set(wanted);
        // A sender keeps its connections, and would meet a failure of the connection or the sign-in only with the next one.
        if (wanted?.at === 'connection' || wanted?.at === 'sign-in') cut(() => true);
      },
    },
    forget() {
      failure.set(null);
      mails.splice(0);
      for (const key of Object.keys(answered)) delete answered[key];
    },
    close,
  };
}

/** Returns the step that a failure concerns; undefined without a failure. */
function stepOf(failure: MailFailure | null): MailStep | undefined {
  if (failure === null) return undefined;
  return failure.at ?? (failure.lose === true ? 'text' : 'recipient');
}

function keptMail(arrived: string, { envelope }: SMTPServerSession): KeptMail {
  const { raw, ...addresses } = arrivedMail(arrived, envelope);
  const subject = decodeWords(mailHeaders(raw).get('subject') ?? '');
  return { at: new Date().toISOString(), ...addresses, subject, raw };
}

function refused(responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode });
}
