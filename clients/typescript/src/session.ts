import type { Client } from './client.ts';
import { ExamhallError, errorOf } from './examhall-error.ts';
import type { Clock } from './exchange.ts';
import { type ForwardedRequest, operationAt, refusal } from './forward.ts';
import type { User } from './generated.ts';
import type { SignedIn } from './operation.ts';

/** A login whose tokens stay in this process. A gateway stores one for each cookie. */
export interface Session {
  /** The account, as of the last refresh. */
  readonly user: User;
  /** The device token of the last sign-in or refresh. Store it in the browser, and send it with the next login from there. */
  readonly deviceToken: string | undefined;
  /** Aborts with the session: at its logout, or once examhall refuses its refresh token. */
  readonly ended: AbortSignal;
  /** Calls as this account. A call that examhall refuses for its token is made once more, with the next token. @throws ExamhallError */
  call<Result>(use: (client: Client<'as' | 'token'>) => Promise<Result>): Promise<Result>;
  /**
   * Sends a request of a browser as this account, and returns the reply as it is. After its end, a session returns 401. A stream ends with its access
   * token, or with the session; a logout ends the session. @throws an error of `fetch`, or ExamhallError if a refresh fails
   */
  forward(request: ForwardedRequest): Promise<Response>;
  /** Ends the session here, and then at examhall. @throws ExamhallError if examhall does not confirm it */
  logout(): Promise<void>;
}

interface Tokens extends SignedIn {
  /** Time of the clock from which the access token counts as old. */
  readonly freshUntil: number;
  /** The client with the credentials of the account. */
  readonly client: Client<'as' | 'token'>;
}

/** An access token is replaced so long before it expires (ms), because a request with it may be on its way for a while. */
const MARGIN_MS = 30_000;

/** Returns a session of the tokens that a login or a registration issued. `client` has no credentials. */
export function openSession(client: Client, clock: Clock, issued: SignedIn): Session {
  const ended = new AbortController();
  let tokens = tokensOf(issued);
  let refreshing: Promise<void> | undefined;
  return {
    get user() {
      return tokens.user;
    },
    get deviceToken() {
      return tokens.deviceToken;
    },
    ended: ended.signal,
    call: (use) => withToken(use, () => false),
    forward,
    logout: () => leave(async (last) => void (await last.logout())),
  };

  /** Makes a call with a fresh token, and once more if it throws or returns that examhall refused the token. */
  async function withToken<Result>(
    use: (client: Client<'as' | 'token'>) => Promise<Result>,
    isRefused: (result: Result) => Promise<boolean> | boolean,
  ): Promise<Result> {
    if (clock.now() >= tokens.freshUntil) await refresh(tokens);
    ended.signal.throwIfAborted();
    const used = tokens;
    try {
      const result = await use(used.client);
      if (!(await isRefused(result))) return result;
    } catch (error) {
      if (!(error instanceof ExamhallError) || error.code !== 'AUTH_INVALID_TOKEN') throw error;
    }
    await refresh(used);
    ended.signal.throwIfAborted();
    return use(tokens.client);
  }

  async function forward(request: ForwardedRequest): Promise<Response> {
    const operation = operationAt(request.method, request.path);
    try {
      if (operation?.name === 'logout') return await leave((last) => last.forward(request));
      const send = (own: Client<'as' | 'token'>) =>
        own.forward(operation?.isStream ? { ...request, signal: lifeOf(request) } : request);
      return await withToken(send, isTokenRefused);
    } catch (error) {
      if (error !== ended.signal.reason || !(error instanceof ExamhallError)) throw error;
      return refusal(401, error.code, error.message);
    }
  }

  /** Returns the signal of a stream: it aborts with the request, the session or the access token. */
  function lifeOf({ signal }: ForwardedRequest): AbortSignal {
    const rest = AbortSignal.timeout(Math.max(0, Math.floor(tokens.freshUntil - clock.now())));
    return AbortSignal.any([rest, ended.signal, ...(signal === undefined ? [] : [signal])]);
  }

  /** Replaces `used`, once for all calls that wait. Does nothing if that has happened, because a refresh token is valid once. */
  async function refresh(used: Tokens): Promise<void> {
    ended.signal.throwIfAborted();
    if (used !== tokens) return;
    refreshing ??= exchange().finally(() => {
      refreshing = undefined;
    });
    await refreshing;
  }

  async function exchange(): Promise<void> {
    try {
      const { refreshToken: token, deviceToken } = tokens;
      tokens = tokensOf({ deviceToken, ...(await client.refresh({ token })) });
    } catch (error) {
      // Any other failure, such as one of a proxy, leaves the session open for the next call.
      if (error instanceof ExamhallError && /^AUTH_(INVALID_TOKEN|ACCOUNT_DISABLED)$/.test(error.code))
        ended.abort(error);
      throw error;
    }
  }

  /**
   * Ends the session, and then sends its logout. The end comes first, because a refresh beside the logout would replace the token that it names.
   * A refresh that is on its way has priority for the same reason.
   */
  async function leave<Result>(send: (last: Client<'token'>) => Promise<Result>): Promise<Result> {
    ended.signal.throwIfAborted();
    const message = 'the session has ended';
    ended.abort(new ExamhallError({ operation: 'logout', code: 'AUTH_INVALID_TOKEN', status: 401, message }));
    await Promise.allSettled([refreshing]);
    return send(client.with({ token: tokens.refreshToken }));
  }

  function tokensOf(envelope: SignedIn): Tokens {
    const { user, accessToken, expiresIn, deviceToken } = envelope;
    const as = { id: user.id, role: user.role, organizationId: user.defaultOrganizationId };
    const freshUntil = clock.now() + expiresIn * 1_000 - MARGIN_MS;
    return { ...envelope, freshUntil, client: client.with({ as, token: accessToken, device: deviceToken }) };
  }
}

/** Returns whether a reply refuses the access token. A wrong password is a 401 as well, and each counts as a failure. */
async function isTokenRefused(reply: Response): Promise<boolean> {
  if (reply.status !== 401) return false;
  return errorOf('forward', reply, await reply.clone().text()).code === 'AUTH_INVALID_TOKEN';
}
