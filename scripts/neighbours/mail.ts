import type { SMTPServerOptions } from 'smtp-server';
import { type ArrivedMail, arrivedMail, listenForMail, mailHeaders } from '#scripts/http/local-mail.ts';

/** One e-mail that arrived. */
export interface KeptMail extends ArrivedMail {
  at: string;
  subject: string;
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
  // Without a certificate: the channel sends in plain text to a loopback address alone.
  const options: SMTPServerOptions = {
    size: MAX_MAIL_BYTES,
    onData(stream, { envelope }, done) {
      const chunks: Buffer[] = [];
      let bytes = 0;
      stream.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes <= MAX_MAIL_BYTES) chunks.push(chunk);
      });
      stream.on('end', () => {
        if (bytes > MAX_MAIL_BYTES) return done(Object.assign(new Error('too large'), { responseCode: 552 }));
        const { raw, ...addresses } = arrivedMail(Buffer.concat(chunks).toString('utf8'), envelope);
        const mail = { at: new Date().toISOString(), ...addresses, subject: subjectOf(raw), raw };
        mails.push(mail);
        if (mails.length > MAX_KEPT_MAILS) mails.shift();
        heard?.(mail);
        done();
      });
    },
  };
  const { port: opened, close } = await listenForMail(options, port);
  return { port: opened, mails, forget: () => void mails.splice(0), close };
}

/** Returns the subject of an e-mail, with its encoded words (RFC 2047) as text. */
function subjectOf(raw: string): string {
  const subject = mailHeaders(raw).get('subject') ?? '';
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
