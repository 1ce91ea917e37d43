import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import PostalMime from 'postal-mime';
import { SMTPServer, type SMTPServerSession } from 'smtp-server';
import { STAND_IN_MAIL_LOGIN } from './environment.ts';
import { failureSwitch, MAIL_FAILURE, type MailFailure, type MailStep, UNDISTURBED } from './failure.ts';
import { openArrivals } from './stand-in.ts';

/** A mail server that takes every e-mail and passes none on, unless a failure is scripted. */
export type MailStandIn = Awaited<ReturnType<typeof openMailStandIn>>;

export interface MailOptions {
  /** Port on 127.0.0.1; default: any free one. */
  port?: number;
  /** Login that the server requires; null: none. Default: that of the stand-ins. */
  login?: { user: string; password: string } | null;
  /** Certificate; without one the server offers no STARTTLS. */
  certificate?: { key: string; cert: string };
  /** Requires TLS from the first byte. */
  implicit?: boolean;
  /** Receives each e-mail that was taken, and each command that a failure met, with its reply code; null: the connection was closed. */
  heard?: (call: { status: number | null; about: string }) => void;
}

const MAX_MAIL_BYTES = 1024 * 1024;

export async function openMailStandIn(options: MailOptions = {}) {
  const { port = 0, login = STAND_IN_MAIL_LOGIN, certificate, implicit = false, heard } = options;
  const arrivals = openArrivals<Awaited<ReturnType<typeof mailOf>>>();
  const failure = failureSwitch<MailFailure>(MAIL_FAILURE, (begun) => {
    // A sender keeps its connections, and would meet a failure of the connection or the sign-in only with the next one.
    if (begun?.at === 'connection' || begun?.at === 'sign-in') cut(() => true);
  });
  let connections = 0;

  function note(status: number | null, about: string): void {
    arrivals.count(status);
    heard?.({ status, about });
  }

  /**
   * Plays one step of a session, undisturbed or as the failure demands. `perform` is what the step effects; a step that takes no effect and has no
   * reply does not wait for it.
   */
  async function play(
    { at, address, session }: { at: MailStep; address: string; session: SMTPServerSession },
    done: (error?: Error) => void,
    perform: () => Promise<void> = async () => undefined,
  ): Promise<void> {
    const present = failure.shown();
    const { delayMs, performs, reply } = at === stepOf(present) ? failure.next(address) : UNDISTURBED;
    if (delayMs > 0) await delay(delayMs, undefined, { ref: false });
    if (performs) await perform();
    if (reply === 'real') return done();
    const status = reply === 'none' ? null : reply.status;
    note(status, `${at} ${address}`);
    if (status === null) cut((connection) => connection.session === session);
    else done(refused(status, present?.text ?? 'this failure is scripted'));
  }

  // By default without a certificate: the channel sends in plain text to a loopback address alone.
  const server = new SMTPServer({
    logger: false,
    disableReverseLookup: true,
    closeTimeout: 1,
    size: MAX_MAIL_BYTES,
    rejectOversized: true,
    authOptional: login === null,
    secure: implicit,
    hideSTARTTLS: certificate === undefined,
    ...certificate,
    onConnect(session, done) {
      connections += 1;
      void play({ at: 'connection', address: session.remoteAddress, session }, done);
    },
    onAuth({ username = '', password }, session, done) {
      void play({ at: 'sign-in', address: username, session }, (error) => {
        if (error !== undefined) done(error);
        else if (username === login?.user && password === login.password) done(null, { user: username });
        else done(refused(535, 'this is not the login of the stand-in'));
      });
    },
    onMailFrom: ({ address }, session, done) => void play({ at: 'sender', address, session }, done),
    onRcptTo: ({ address }, session, done) => void play({ at: 'recipient', address, session }, done),
    onData(stream, session, done) {
      const address = recipientsOf(session.envelope).join(' ');
      const arrived = text(stream).catch(() => null);
      void play({ at: 'text', address, session }, done, async () => {
        const raw = await arrived;
        if (raw === null || stream.sizeExceeded) return;
        const mail = await mailOf(raw, session);
        arrivals.keep(mail);
        note(250, `${mail.to.join(' ')}: ${mail.subject}`);
      });
    },
  });
  // A client that leaves in the middle is no error. The wait below throws what prevents the server from listening.
  server.on('error', () => undefined);
  server.listen(port, '127.0.0.1');
  await once(server.server, 'listening');

  function cut(isMeant: (connection: { session: SMTPServerSession }) => boolean): void {
    for (const connection of server.connections) if (isMeant(connection)) connection._socket.destroy();
  }

  const { port: open } = server.server.address() as AddressInfo;
  return {
    url: `smtp://127.0.0.1:${open}`,
    port: open,
    /** The newest e-mails, oldest first. */
    mails: arrivals.newest,
    arrivals,
    failure,
    /** Returns the number of connections that were opened so far. */
    connections: () => connections,
    cutAll: () => cut(() => true),
    details: () => ({ mails: arrivals.newest }),
    /** Ends the failure, and deletes e-mails and numbers. */
    forget() {
      failure.set(null);
      arrivals.forget();
    },
    close: () => new Promise<void>((resolve) => void server.close(resolve)),
  };
}

/** Returns an e-mail as it is kept: the addresses are those of the envelope, and `user` is null without a login. */
async function mailOf(raw: string, { envelope, secure, user = null }: SMTPServerSession) {
  const { mailFrom } = envelope;
  const from = mailFrom === false ? '' : mailFrom.address;
  const { subject = '' } = await PostalMime.parse(raw);
  return { at: new Date().toISOString(), from, to: recipientsOf(envelope), subject, raw, secure, user };
}

/** Returns the step that a failure concerns; undefined without a failure. */
function stepOf(failure: MailFailure | null): MailStep | undefined {
  if (failure === null) return undefined;
  return failure.at ?? (failure.lose === true ? 'text' : 'recipient');
}

function recipientsOf({ rcptTo }: SMTPServerSession['envelope']): string[] {
  return rcptTo.map(({ address }) => address);
}

function refused(responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode });
}
