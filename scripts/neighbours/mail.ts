import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';

/** One e-mail that arrived. */
export interface KeptMail {
  at: string;
  from: string;
  to: readonly string[];
  subject: string;
  /** The whole e-mail as it arrived. */
  raw: string;
}

/** A mail server that takes every e-mail and passes none on. */
export interface MailStandIn {
  port: number;
  /** The newest e-mails, oldest first. */
  mails: readonly KeptMail[];
  forget(): void;
  close(): Promise<void>;
}

const MAX_KEPT_MAILS = 200;
const MAX_MAIL_BYTES = 1024 * 1024;

/** Opens the mail server on a port of 127.0.0.1; 0: any free one. `heard` receives each e-mail. */
export async function openMailStandIn(port: number, heard?: (mail: KeptMail) => void): Promise<MailStandIn> {
  const mails: KeptMail[] = [];
  const server = new SMTPServer({
    logger: false,
    // It has no certificate: the channel sends in plain text to a loopback address alone.
    hideSTARTTLS: true,
    authOptional: true,
    disableReverseLookup: true,
    closeTimeout: 1,
    size: MAX_MAIL_BYTES,
    onData(stream, { envelope: { mailFrom, rcptTo } }, done) {
      const chunks: Buffer[] = [];
      let bytes = 0;
      stream.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes <= MAX_MAIL_BYTES) chunks.push(chunk);
      });
      stream.on('end', () => {
        if (bytes > MAX_MAIL_BYTES) return done(Object.assign(new Error('too large'), { responseCode: 552 }));
        const raw = Buffer.concat(chunks).toString('utf8');
        const from = mailFrom === false ? '' : mailFrom.address;
        const to = rcptTo.map(({ address }) => address);
        const mail = { at: new Date().toISOString(), from, to, subject: subjectOf(raw), raw };
        mails.push(mail);
        if (mails.length > MAX_KEPT_MAILS) mails.shift();
        heard?.(mail);
        done();
      });
    },
  });
  // A client that leaves in the middle ends no stand-in. The wait below throws what prevents the server from listening.
  server.on('error', () => undefined);
  server.listen(port, '127.0.0.1');
  await once(server.server, 'listening');
  return {
    port: (server.server.address() as AddressInfo).port,
    mails,
    forget: () => void mails.splice(0),
    close: () => new Promise((resolve) => void server.close(() => resolve())),
  };
}

/** Returns the subject of an e-mail, with its encoded words (RFC 2047) as text. */
function subjectOf(raw: string): string {
  const head = raw.slice(0, raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ');
  const [, subject = ''] = /^subject: *(.*)$/im.exec(head) ?? [];
  return subject
    .replace(/\?= +=\?/g, '?==?')
    .replace(/=\?utf-8\?([bq])\?([^?]*)\?=/gi, (_word, form: string, text: string) => {
      if (form.toLowerCase() === 'b') return Buffer.from(text, 'base64').toString('utf8');
      const bytes = text.replaceAll('_', ' ').replace(/=([0-9a-f]{2})/gi, (_pair, hex: string) => byteOf(hex));
      return Buffer.from(bytes, 'latin1').toString('utf8');
    });
}

function byteOf(hex: string): string {
  return String.fromCharCode(Number.parseInt(hex, 16));
}
