import type { SMTPServerSession } from 'smtp-server';
import { type ArrivedMail, arrivedMail, listenForMail, mailHeaders } from '#scripts/http/local-mail.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

/** Stages of an SMTP session at which the receiver can fail. */
type Stage = 'CONNECT' | 'AUTH' | 'MAIL FROM' | 'RCPT TO' | 'DATA';

/** Behaviour of the receiver: it takes e-mails, or fails as real mail servers do. */
export type MailBehaviour =
  | { kind: 'take' }
  | { kind: 'answer'; at: Stage; code: number; text?: string }
  /** Reads the command and never replies. */
  | { kind: 'hang'; at: Stage }
  /** Closes the connection while the text of the e-mail arrives. */
  | { kind: 'cut' };

/** One e-mail that the receiver has taken. */
export interface ReceivedMail extends ArrivedMail {
  /** Headers by their names in lower case, unfolded; repeats are joined by a line break. */
  headers: ReadonlyMap<string, string>;
  /** The session was encrypted. */
  secure: boolean;
  user: string | null;
}

export interface MailReceiver {
  port: number;
  mails: ReceivedMail[];
  behaviour: MailBehaviour;
  /** Number of connections that were opened so far. */
  connections: () => number;
  /** Number of commands that have reached the stage at which the receiver hangs. */
  hung: () => number;
  /** Closes every open connection, as a server does that restarts. */
  cutAll(): void;
  /** Environment that makes this server the one of the `email` channel. */
  env: NodeJS.ProcessEnv;
}

interface MailReceiverOptions {
  /** Certificate of the server; without one it offers no STARTTLS. */
  certificate?: { key: string; cert: string };
  /** Requires TLS from the first byte. */
  implicit?: boolean;
  /** Requires this login. */
  login?: { user: string; password: string };
}

/** Opens a real SMTP server on a loopback address. */
export async function openMailReceiver(t: Teardown, options: MailReceiverOptions = {}): Promise<MailReceiver> {
  const { certificate, implicit = false, login } = options;
  let [connections, hung] = [0, 0];
  const mails: ReceivedMail[] = [];

  /** Calls `done` as the behaviour demands at this stage. */
  function reach(stage: Stage, done: (error?: Error | null) => void): void {
    const { behaviour } = receiver;
    if (behaviour.kind === 'hang' && behaviour.at === stage) hung += 1;
    else if (behaviour.kind === 'answer' && behaviour.at === stage) {
      const error = new Error(behaviour.text ?? 'no: Điểm của em là 9,25 <student-1@school.example>');
      done(Object.assign(error, { responseCode: behaviour.code }));
    } else done();
  }

  const { server, port, close } = await listenForMail({
    secure: implicit,
    hideSTARTTLS: certificate === undefined,
    authOptional: login === undefined,
    allowInsecureAuth: false,
    ...(certificate ?? {}),
    onConnect(_session, done) {
      connections += 1;
      reach('CONNECT', done);
    },
    onAuth({ username, password }, _session, done) {
      if (username === login?.user && password === login?.password) return done(null, { user: username });
      done(Object.assign(new Error(`no ${password}`), { responseCode: 535 }));
    },
    onMailFrom: (_address, _session, done) => reach('MAIL FROM', done),
    onRcptTo: (_address, _session, done) => reach('RCPT TO', done),
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        if (receiver.behaviour.kind === 'cut') receiver.cutAll();
      });
      stream.on('end', () =>
        reach('DATA', (error) => {
          if (error == null) mails.push(mailOf(Buffer.concat(chunks).toString('utf8'), session));
          done(error);
        }),
      );
    },
  });
  t.teardown(() => {
    receiver.cutAll();
    return close();
  });
  const receiver: MailReceiver = {
    port,
    mails,
    behaviour: { kind: 'take' },
    connections: () => connections,
    hung: () => hung,
    cutAll() {
      for (const { _socket } of server.connections) _socket.destroy();
    },
    env: {
      NOTIFICATION_EMAIL_HOST: '127.0.0.1',
      NOTIFICATION_EMAIL_PORT: String(port),
      NOTIFICATION_EMAIL_TLS: 'none',
      NOTIFICATION_EMAIL_FROM: 'no-reply@school.example',
    },
  };
  return receiver;
}

function mailOf(raw: string, { envelope, secure, user }: SMTPServerSession): ReceivedMail {
  return { ...arrivedMail(raw, envelope), headers: mailHeaders(raw), secure, user: user ?? null };
}
