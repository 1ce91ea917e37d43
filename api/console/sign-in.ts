import type { Call } from '#api/route.ts';
import { endSession } from '#infra/mongo/auth/sessions.ts';
import { MAX_SENT_CHARACTERS } from '#shared/auth/password-policy.ts';
import type { Form as FormBody } from '#shared/generated/operations.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { secretCheck } from '#shared/kernel/secret.ts';
import { type Html, html } from './html.ts';
import type { ConsoleDeps, Form } from './screen.ts';
import { newSession, type Session, sealed } from './session.ts';
import { type Language, words } from './words.ts';

/** A session with its cookie, or the reason why the sign-in was refused. */
export type SignedIn = { session: Session; cookie: string } | { fault: Fault; retryAfter?: number };
type Fault = 'wrongToken' | 'wrongPassword' | 'longPassword' | 'notAdmin' | 'disabled' | 'throttled' | 'busy';

const STATUS: Readonly<Record<Fault, number>> = {
  wrongToken: 401,
  wrongPassword: 401,
  longPassword: 400,
  notAdmin: 403,
  disabled: 403,
  throttled: 429,
  busy: 503,
};

const WORDS = words(
  {
    title: 'Sign in',
    intro: 'For the operators of this system. Sign in with the operator token or with the account of an administrator.',
    byToken: 'With the operator token',
    token: 'OPS_TOKEN',
    byAccount: 'With an ADMIN account',
    email: 'E-mail',
    password: 'Password',
    submit: 'Sign in',
    nothing: 'This process has neither OPS_TOKEN nor the auth service: set OPS_TOKEN and restart it.',
    wrongToken: 'The token is wrong.',
    wrongPassword: 'E-mail or password is wrong.',
    longPassword: 'The password has more than 1,024 characters.',
    notAdmin: 'Only an ADMIN may use the console.',
    disabled: 'The account is suspended.',
    throttled: 'Too many attempts. Wait a few minutes.',
    busy: 'The service is busy or MongoDB does not answer. Try again.',
  },
  {
    title: 'Đăng nhập',
    intro: 'Dành cho người vận hành hệ thống. Đăng nhập bằng mã vận hành hoặc bằng tài khoản quản trị viên.',
    byToken: 'Bằng mã vận hành',
    token: 'OPS_TOKEN',
    byAccount: 'Bằng tài khoản ADMIN',
    email: 'E-mail',
    password: 'Mật khẩu',
    submit: 'Đăng nhập',
    nothing: 'Tiến trình này không có OPS_TOKEN và không phục vụ dịch vụ auth: hãy đặt OPS_TOKEN rồi khởi động lại.',
    wrongToken: 'Mã không đúng.',
    wrongPassword: 'E-mail hoặc mật khẩu không đúng.',
    longPassword: 'Mật khẩu dài hơn 1.024 ký tự.',
    notAdmin: 'Chỉ ADMIN được dùng bảng điều khiển.',
    disabled: 'Tài khoản đang bị khóa.',
    throttled: 'Thử quá nhiều lần. Hãy đợi vài phút.',
    busy: 'Dịch vụ đang bận hoặc MongoDB không trả lời. Hãy thử lại.',
  },
);

/** The page that signs in, in one language. */
export function signInPage(
  deps: Pick<ConsoleDeps, 'opsToken' | 'auth'>,
  { language, next, fault }: { language: Language; next: string; fault: Fault | null },
): { title: string; status: number; content: Html } {
  const w = WORDS[language];
  const byToken = deps.opsToken !== undefined && deps.opsToken.length > 0;
  const form = (
    way: string,
    heading: string,
    fields: Html,
  ) => html`<form class="card" method="post" action="/ops/sign-in">
<h2>${heading}</h2>
<input type="hidden" name="way" value="${way}"><input type="hidden" name="next" value="${next}">
${fields}
<button>${w.submit}</button>
</form>`;
  const content = html`<h1>${w.title}</h1>
<p>${w.intro}</p>
${fault !== null && html`<p class="alarm" role="alert">${w[fault]}</p>`}
${!byToken && deps.auth === null && html`<p class="alarm" role="alert">${w.nothing}</p>`}
<div class="cards">
${byToken && form('token', w.byToken, html`<label>${w.token} <input name="token" type="password" autocomplete="off" maxlength="4096" required></label>`)}
${
  deps.auth !== null &&
  form(
    'account',
    w.byAccount,
    html`<label>${w.email} <input name="email" type="email" autocomplete="username" maxlength="254" required></label>
<label>${w.password} <input name="password" type="password" autocomplete="current-password" maxlength="${MAX_SENT_CHARACTERS}" required></label>`,
  )
}
</div>`;
  return { title: w.title, status: fault === null ? 200 : STATUS[fault], content };
}

/** Opens the sign-in. Wrong tokens count by address in this process, and wrong passwords as at every other login. */
export function openSignIn(deps: ConsoleDeps): (call: Call<FormBody>, form: Form) => Promise<SignedIn> {
  const isToken = secretCheck(deps.opsToken);

  function withToken(call: Call<FormBody>, token: string): SignedIn {
    if (isToken?.(token) !== true) {
      // Only wrong tokens are refused: behind an unknown proxy, a stranger shares the address of the operators.
      const retryAfter = deps.wrongTokens.count(call, 'console');
      return retryAfter === null ? { fault: 'wrongToken' } : { fault: 'throttled', retryAfter };
    }
    const session = newSession(null, deps.now());
    return { session, cookie: sealed(session, token) };
  }

  async function withPassword(call: Call<FormBody>, email: string, password: string): Promise<SignedIn> {
    if (deps.auth === null) return { fault: 'wrongPassword' };
    // Every schema with a password has this limit; that of a form is one for all fields.
    if ([...password].length > MAX_SENT_CHARACTERS) return { fault: 'longPassword' };
    const { login, settings } = deps.auth;
    const { requestId, headers, peer, signal, stop } = call;
    const body = { email, password };
    const reply = await login({
      requestId,
      headers,
      peer,
      signal,
      stop,
      body,
      params: {},
      query: {},
      identity: {},
    } as never);
    if (isRejection(reply)) return refusedLogin(reply.rejected, reply.retryAfter);
    const { user, accessToken } = (reply as { data: LoginData }).data;
    const account = { id: user.id, sessionId: sessionIdOf(accessToken) };
    if (user.role !== 'ADMIN') {
      await endSession(deps.mongo, {
        accountId: account.id,
        sessionId: account.sessionId,
        reason: 'LOGOUT',
        maxAgeMs: settings.sessionMaxMs,
      });
      return { fault: 'notAdmin' };
    }
    const session = newSession(account, deps.now());
    return { session, cookie: sealed(session, settings.jwt.secret) };
  }

  return async (call, form) =>
    form.text('way') === 'token'
      ? withToken(call, form.text('token'))
      : withPassword(call, form.text('email'), form.all('password')[0] ?? '');
}

interface LoginData {
  user: { id: string; role: string };
  accessToken: string;
}

function refusedLogin(code: string, retryAfter: number | undefined): SignedIn {
  const again = retryAfter === undefined ? {} : { retryAfter };
  switch (code) {
    case 'AUTH_THROTTLED':
      return { fault: 'throttled', ...again };
    case 'AUTH_ACCOUNT_DISABLED':
      return { fault: 'disabled' };
    case 'UNAVAILABLE':
      return { fault: 'busy', ...again };
    default:
      return { fault: 'wrongPassword' };
  }
}

/** Returns the session that an access token names, which the login has just issued. */
function sessionIdOf(accessToken: string): string {
  const claims: unknown = JSON.parse(Buffer.from(accessToken.split('.')[1] ?? '', 'base64url').toString('utf8'));
  return (claims as { sid: string }).sid;
}
