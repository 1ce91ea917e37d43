/** Languages of the console. */
export const LANGUAGES = ['vi', 'en'] as const;
export type Language = (typeof LANGUAGES)[number];

/** A text in both languages. */
export type Text = Readonly<Record<Language, string>>;

type Word = string | ((...values: never[]) => string);
/** The Vietnamese form of a word: a text for a text, and a function of the same values for a function. */
type Same<W> = W extends (...values: infer V) => string ? (...values: V) => string : string;

/** Returns the words of a screen by language. A word that one language lacks does not compile. */
export function words<const W extends Readonly<Record<string, Word>>>(
  en: W,
  vi: { readonly [K in keyof W]: Same<W[K]> },
): Readonly<Record<Language, { readonly [K in keyof W]: Same<W[K]> }>> {
  return { en: en as unknown as { readonly [K in keyof W]: Same<W[K]> }, vi };
}

/** Returns the language of a request: the one that its cookie names, otherwise the first one that the browser prefers. */
export function languageOf(chosen: string | undefined, accepted: string | undefined): Language {
  const known = LANGUAGES.find((one) => one === chosen);
  if (known !== undefined) return known;
  for (const range of (accepted ?? '').split(',')) {
    const tag = range.split(';')[0]?.trim().toLowerCase().split('-')[0];
    const found = LANGUAGES.find((one) => one === tag);
    if (found !== undefined) return found;
  }
  return 'en';
}

/** Words of every page. */
export const SHARED = words(
  {
    skip: 'Skip to content',
    screens: 'Screens',
    otherLanguage: 'Tiếng Việt',
    signOut: 'Sign out',
    signedInAs: 'Signed in as',
    pause: 'Pause updates',
    resume: 'Resume updates',
    readAt: 'Read at',
    stale: 'This page is old: it could not be read again since',
    version: 'version',
    notFound: 'Page not found',
    notFoundText: 'No screen of the console has this address.',
    unavailable: 'MongoDB does not answer',
    unavailableText: 'The console reads everything from MongoDB. Check the database, then reload the page.',
    failed: 'The page failed',
    failedText: 'The service has a fault. Its log has the error under this request id:',
    refused: 'The form was refused',
    refusedText:
      'It did not come from a page of this session. Nothing was changed. Go back, reload the page and send it again.',
  },
  {
    skip: 'Chuyển đến nội dung',
    screens: 'Các màn hình',
    otherLanguage: 'English',
    signOut: 'Đăng xuất',
    signedInAs: 'Đang đăng nhập:',
    pause: 'Tạm dừng cập nhật',
    resume: 'Tiếp tục cập nhật',
    readAt: 'Đọc lúc',
    stale: 'Trang này đã cũ: không đọc lại được kể từ',
    version: 'phiên bản',
    notFound: 'Không tìm thấy trang',
    notFoundText: 'Bảng điều khiển không có màn hình nào ở địa chỉ này.',
    unavailable: 'MongoDB không trả lời',
    unavailableText: 'Bảng điều khiển đọc mọi thứ từ MongoDB. Hãy kiểm tra cơ sở dữ liệu rồi tải lại trang.',
    failed: 'Trang bị lỗi',
    failedText: 'Dịch vụ gặp lỗi. Nhật ký có lỗi này dưới mã yêu cầu:',
    refused: 'Biểu mẫu bị từ chối',
    refusedText:
      'Biểu mẫu không đến từ một trang của phiên này. Chưa có gì thay đổi. Hãy quay lại, tải lại trang và gửi lại.',
  },
);

const UNITS = { en: ['s', 'min', 'h', 'd'], vi: ['giây', 'phút', 'giờ', 'ngày'] } as const;

/** Returns a time span in words: `40 s`, `12 min`, `3 h`, `2 d`. */
export function spanText(ms: number, language: Language): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  const [s, min, h, d] = UNITS[language];
  if (seconds < 120) return `${seconds} ${s}`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} ${min}`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} ${h}`;
  return `${Math.round(seconds / 86_400)} ${d}`;
}
