import { readFileSync } from 'node:fs';
import { splitTarget } from '#api/http/exchange.ts';
import { operatorName } from '#api/http/guards/tokens.ts';
import { fileReply } from '#api/http/reply.ts';
import type { Call, RawReply, Route } from '#api/route.ts';
import { endSession, findSession } from '#infra/mongo/auth/sessions.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { endConsoleSession, isConsoleSessionEnded } from '#infra/mongo/operations/console-ends.ts';
import type { Form as FormBody } from '#shared/generated/operations.ts';
import { secretCheck } from '#shared/kernel/secret.ts';
import { type Html, html } from './html.ts';
import { framed, pageReply, redirect } from './layout.ts';
import { type ConsoleDeps, formOf, type PageCall, type Screen } from './screen.ts';
import { cookieOf, isOwnOrigin, mayOperate, SESSION_MS, type Session, unsealed } from './session.ts';
import { openSignIn, signInPage } from './sign-in.ts';
import { languageOf, SHARED } from './words.ts';

/**
 * Returns the names of the cookies, and the attribute that the prefix requires. A browser accepts a name with this prefix over https alone, so
 * that no page of plain http can plant a session. `__Host-` would send the cookies to the paths of the API as well.
 */
function cookiesOf(production: boolean) {
  const prefix = production ? '__Secure-' : '';
  return {
    session: `${prefix}examhall_console`,
    language: `${prefix}examhall_console_language`,
    secure: production ? '; Secure' : '',
  };
}
const YEAR_SECONDS = 31_536_000;
/** Size limit of a form: a thousand chosen ids. */
const MAX_FORM_BYTES = 64 * 1_024;

/** Addresses that no screen has, by their depth. The first of these routes also answers what a browser opens below `/ops` besides them. */
const UNKNOWN = ['/ops/:a', '/ops/:a/:b', '/ops/:a/:b/:c', '/ops/:a/:b/:c/:d'] as const;
const NOT_FOUND = {
  path: '/ops/not-found',
  title: { en: SHARED.en.notFound, vi: SHARED.vi.notFound },
} as const;

/** A request whose session is known. */
interface Visit {
  call: Call<FormBody>;
  page: PageCall;
  session: Session | null;
  target: string;
}

/** Returns the routes of pages and forms. They are for a browser, and no part of the API and its document. */
export function consoleRoutes(deps: ConsoleDeps, screens: readonly Screen[]): Route[] {
  const navigation = screens.filter(({ within }) => within === undefined);
  const home = navigation[0]?.path ?? '/ops/overview';
  const signIn = openSignIn(deps);
  const cookies = cookiesOf(deps.production);
  const css = fileReply('text/css; charset=utf-8', () => readAsset('console.css'));
  const script = fileReply('text/javascript; charset=utf-8', () => readAsset('console.js'));

  return [
    get('/ops', (visit) => redirect(visit.session === null ? '/ops/sign-in' : home)),
    get('/ops/sign-in', (visit) => {
      const next = nextOf(visit.page.query.get('next'), home);
      return visit.session === null ? showSignIn(visit, next, null) : redirect(next);
    }),
    // Before the sign-in there is no proof. That of an older session in another tab would refuse this one.
    post('/ops/sign-in', sign, { isProven: () => true, anyMarks: ['/password', '/token'] }),
    post('/ops/sign-out', signOut),
    get('/ops/language', ({ page: { query } }) => {
      const rules = `Path=/ops; SameSite=Lax; Max-Age=${YEAR_SECONDS}${cookies.secure}`;
      const cookie = `${cookies.language}=${query.get('to') === 'vi' ? 'vi' : 'en'}; ${rules}`;
      return redirect(nextOf(query.get('next'), home), { 'Set-Cookie': cookie });
    }),
    { ...route('GET', '/ops/assets/console.css'), handle: async ({ headers }) => css(headers['if-none-match']) },
    { ...route('GET', '/ops/assets/console.js'), handle: async ({ headers }) => script(headers['if-none-match']) },
    ...screens.flatMap((screen) => [
      get(screen.path, (visit) => show(visit, screen)),
      ...(screen.acts ?? []).map(({ path, run }) =>
        post(path, async (visit) => {
          const { session, page, call } = visit;
          if (session === null) return toSignIn(screen.path);
          const done = await run({ ...page, form: formOf(call.body.fields) });
          return 'to' in done ? redirect(done.to) : pageReply(done.status, inFrame(visit, screen, done.html));
        }),
      ),
    ]),
    ...UNKNOWN.map((path, index) => ({ ...get(path, notFound), ...(index === 0 && { pageBelow: '/ops/' }) })),
  ];

  /** Without a session the sign-in answers, as it does for each screen: it does not show which addresses exist. */
  function notFound(visit: Visit): RawReply {
    if (visit.session === null) return toSignIn(visit.target);
    const w = SHARED[visit.page.language];
    const content = html`<h1>${w.notFound}</h1><p class="warning">${w.notFoundText}</p><p><a href="${home}">${navigation[0]?.title[visit.page.language]}</a></p>`;
    return pageReply(404, inFrame(visit, NOT_FOUND, content));
  }

  async function show(visit: Visit, screen: Screen): Promise<RawReply> {
    if (visit.session === null) return toSignIn(visit.target);
    const shown = await screen.render(visit.page);
    const { status, html } = 'status' in shown ? shown : { status: 200, html: shown };
    return pageReply(status, inFrame(visit, screen, html));
  }

  function get(path: string, handle: (visit: Visit) => RawReply | Promise<RawReply>): Route {
    return { ...route('GET', path), handle: guarded(async (call) => handle(await visited(call))) };
  }

  /** A form is accepted from a page of this origin only, and from a page of the same session. */
  function post(
    path: string,
    handle: (visit: Visit) => Promise<RawReply>,
    { isProven = hasProof, anyMarks = [] as readonly string[] } = {},
  ): Route {
    const body = { schema: 'operations/form', maxBytes: MAX_FORM_BYTES, isForm: true, anyMarks } as const;
    const checked = async (call: Call<FormBody>) => {
      const visit = await visited(call);
      return isOwnOrigin(call.headers) && isProven(visit) ? handle(visit) : trouble(call, 403, 'refused', null);
    };
    return { ...route('POST', path), body, handle: guarded(checked) };
  }

  /** Answers a failure with a page: its reader is a person. */
  function guarded(handle: (call: Call<FormBody>) => Promise<RawReply>): Route['handle'] {
    return async (call: Call<FormBody>) => {
      if (!deps.usable()) return trouble(call, 503, 'unavailable', null);
      try {
        return await handle(call);
      } catch (err) {
        if (isOutage(err)) return trouble(call, 503, 'unavailable', null);
        deps.log.error({ err, requestId: call.requestId }, 'console page failed');
        return trouble(call, 500, 'failed', call.requestId);
      }
    };
  }

  async function visited(call: Call<FormBody>): Promise<Visit> {
    const now = deps.now();
    const session = await liveSession(call, now);
    const { path, query } = splitTarget(call.target ?? '');
    const page: PageCall = {
      params: call.params,
      query: new URLSearchParams(query),
      language: languageIn(call),
      operator: operatorName(session?.account?.id ?? null),
      proof: html`<input type="hidden" name="proof" value="${session?.csrf ?? ''}">`,
      requestId: call.requestId,
      now,
    };
    return { call, page, session, target: path + (query === '' ? '' : `?${query}`) };
  }

  /** Returns the session of the cookie, unless it has ended. That of an account ends at once with a suspension or a changed password. */
  async function liveSession(call: Call<FormBody>, now: number): Promise<Session | null> {
    const { auth, opsToken } = deps;
    const { jwt, sessionMaxMs = 0 } = auth?.settings ?? {};
    const jwtSecrets = jwt === undefined ? [] : [jwt.secret, ...jwt.previousSecrets];
    const session = unsealed(cookieOf(call.headers.cookie, cookies.session), { opsToken, jwtSecrets }, now);
    if (session === null) return null;
    if (session.account === null) return (await isConsoleSessionEnded(deps.mongo, session)) ? null : session;
    const { id, sessionId } = session.account;
    const found = await findSession(deps.mongo, { sub: id, sid: sessionId });
    return found.kind === 'found' && mayOperate(found, new Date(now), sessionMaxMs) ? session : null;
  }

  async function sign({ call, page }: Visit): Promise<RawReply> {
    const form = formOf(call.body.fields);
    const next = nextOf(form.text('next'), home);
    const signed = await signIn(call, form);
    if ('fault' in signed) return showSignIn({ call, page, session: null, target: '/ops/sign-in' }, next, signed);
    const operator = operatorName(signed.session.account?.id ?? null);
    deps.log.info({ requestId: page.requestId, operator }, 'operator signed in to the console');
    return redirect(next, { 'Set-Cookie': sessionCookie(signed.cookie, SESSION_MS / 1_000) });
  }

  async function signOut({ session }: Visit): Promise<RawReply> {
    const { auth } = deps;
    if (session?.account === null) await endConsoleSession(deps.mongo, session);
    else if (session !== null && auth !== null) {
      const { id: accountId, sessionId } = session.account;
      const maxAgeMs = auth.settings.sessionMaxMs;
      await endSession(deps.mongo, { accountId, sessionId, reason: 'LOGOUT', maxAgeMs });
    }
    return redirect('/ops/sign-in', { 'Set-Cookie': sessionCookie('', 0) });
  }

  function languageIn({ headers }: Pick<Call, 'headers'>) {
    return languageOf(cookieOf(headers.cookie, cookies.language), headers['accept-language']);
  }

  /** The cookie is sent to /ops only, never to a script, never with a request of another site, and in production over https only. */
  function sessionCookie(value: string, maxAgeSeconds: number): string {
    const rules = `Path=/ops; HttpOnly; SameSite=Strict; Max-Age=${maxAgeSeconds}`;
    return `${cookies.session}=${value}; ${rules}${cookies.secure}`;
  }

  function showSignIn(
    visit: Visit,
    next: string,
    refused: Extract<Awaited<ReturnType<typeof signIn>>, { fault: unknown }> | null,
  ): RawReply {
    const { title, status, content } = signInPage(deps, {
      language: visit.page.language,
      next,
      fault: refused?.fault ?? null,
    });
    const after = refused?.retryAfter === undefined ? {} : { 'Retry-After': String(Math.ceil(refused.retryAfter)) };
    const target = `/ops/sign-in?${new URLSearchParams({ next })}`;
    return pageReply(status, bare(visit.call, { title, target }, content), after);
  }

  function trouble(
    call: Call<FormBody>,
    status: number,
    what: 'unavailable' | 'failed' | 'refused',
    detail: string | null,
  ): RawReply {
    const w = SHARED[languageIn(call)];
    const content = html`<h1>${w[what]}</h1><p>${w[`${what}Text`]} ${detail !== null && html`<code>${detail}</code>`}</p>`;
    return pageReply(status, bare(call, { title: w[what], target: '/ops' }, content));
  }

  /** Returns a page without navigation. */
  function bare(call: Call<FormBody>, { title, target }: { title: string; target: string }, content: Html): Html {
    const language = languageIn(call);
    const now = deps.now();
    return framed({ language, title, target, screens: [], here: null, operator: null, refreshes: false, now }, content);
  }

  function inFrame(
    { page, target }: Visit,
    screen: Pick<Screen, 'path' | 'title' | 'within' | 'refreshes'>,
    content: Html,
  ): Html {
    const { language, proof, now } = page;
    const title = screen.title[language];
    return framed(
      {
        language,
        title,
        target,
        screens: navigation,
        here: screen.within ?? screen.path,
        operator: { name: page.operator, proof },
        refreshes: screen.refreshes === true,
        now,
      },
      content,
    );
  }
}

/** Returns true if the form contains the proof of its session. Without a session no form changes anything, so that none is needed. */
function hasProof({ session, call }: Visit): boolean {
  return session === null || secretCheck(session.csrf)?.(formOf(call.body.fields).text('proof')) === true;
}

function route(method: 'GET' | 'POST', path: string): Omit<Route, 'handle'> {
  return { method, path, operation: '', summary: '', guards: [], replies: [], errors: [] };
}

function readAsset(name: string): Buffer {
  return readFileSync(new URL(`./assets/${name}`, import.meta.url));
}

function toSignIn(next: string): RawReply {
  return redirect(`/ops/sign-in?${new URLSearchParams({ next })}`);
}

/** A header takes only ASCII without spaces. Browsers read a backslash as a slash, and `#` would end the address. */
const PAGE = /^\/ops(?:\/[\w:@-][\w.:@-]*)+(?:\?[!-~]*)?$/;

/** Returns the page to which a link or a form leads next, if it is one of the console. */
function nextOf(next: string | null, home: string): string {
  return next !== null && PAGE.test(next) && !/[\\#]/.test(next) ? next : home;
}
