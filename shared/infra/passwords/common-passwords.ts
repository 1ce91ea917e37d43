import { decomposed } from '#shared/kernel/text.ts';

/**
 * Words with which passwords of Vietnamese pupils, parents and teachers begin, without tone marks. The lists of leaks come from
 * other countries: they contain `matkhau` and `anhyeuem`, but hardly any form with a number.
 */
const VIETNAMESE_WORDS = `
matkhau matkhaumoi taikhoan dangnhap xinchao chaoban khongbiet khongco khongnho toilaai nguoidung quantri
hocsinh hocsinhgioi sinhvien giaovien giaoviencn phuhuynh thaygiao cogiao thayco truonghoc lophoc lophocvui hoctap
hoctot hocgioi baitap baithi dethi kythi thicu thidau thidaihoc onthi thpt thcs tieuhoc trunghoc daihoc tuyensinh
student teacher parent school class pupil
vietnam vietnamvodich toiyeuvietnam hanoi saigon hochiminh tphcm danang haiphong cantho nhatrang dalat vungtau
nghean thanhhoa quangninh quangnam binhduong dongnai hue
anhyeuem emyeuanh yeuem yeuanh yeuemnhieu yeuanhnhieu anhnhoem emnhoanh nhoem nhoanh anhvaem maiyeu maiyeuem
maiyeuanh tinhyeu tinhban banbe banthan giadinh giadinhtoi bome boyeu meyeu boyeucon meyeucon conyeume conyeubo
yeume yeubo yeucon conyeu hanhphuc mayman thanhcong vuive congchua hoangtu bupbe meocon cunyeu beyeu
nguyen nguyenvan nguyenvana nguyenthi tranvan tranthi levan lethi phamvan phamthi hoangvan
lienquan freefire doremon doraemon conan pikachu bongda zalo facebook
`;

/** A group of two to four characters that is repeated, such as `123123123` or `abcabcabc`. The list of leaks leaves these out. */
const REPEATED_GROUP = /^(?!(.)\1+$)([a-z0-9]{2,4})\2+$/;

/** A word with at most six digits before or after it. */
const WORD_AND_NUMBER = /^\d{0,6}(?<word>\D+)\d{0,6}$/;

/**
 * Returns a function that is true for common passwords. These are the 50,000 most frequent ones of leaks, a short group that is
 * repeated, and a common Vietnamese word with or without a number. The function expects a normalized text in lower case. The lists are
 * loaded and built by this call, which takes some 40 ms and 7 MB: most processes never need them.
 */
export async function commonPasswords(): Promise<(text: string) => boolean> {
  const { dictionary } = await import('@zxcvbn-ts/language-common');
  const common = new Set<string>(dictionary['passwords-common']);
  const words = new Set(VIETNAMESE_WORDS.trim().split(/\s+/));
  return (text) => {
    if (common.has(text) || REPEATED_GROUP.test(text)) return true;
    const word = WORD_AND_NUMBER.exec(plain(text))?.groups?.word;
    return word !== undefined && words.has(word);
  };
}

/** Returns a text without tone marks and blanks: `mật khẩu` becomes `matkhau`. */
function plain(text: string): string {
  return decomposed(text)
    .replace(/\p{Mn}|\s/gu, '')
    .replace(/đ/g, 'd');
}
