/**
 * Proleptic Gregorian calendar on whole numbers: days are counted from 1970-01-01, months from 1 to 12. The two conversions
 * are those of Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms" (years start in March, so that the leap day is
 * their last). No `Date` objects: they cost more than all the rest of a next occurrence.
 */
export const SECONDS_PER_DAY = 86_400;

/** The calendar, weekdays included, repeats after 400 years = 146,097 days = 20,871 weeks. */
export const SECONDS_PER_400_YEARS = 146_097 * SECONDS_PER_DAY;

/** Days from 1970-01-01 to the given date; years from 0 on. Days beyond the month's end run on into the next. */
export function daysFromCivil(year: number, month: number, day: number): number {
  const marchYear = month <= 2 ? year - 1 : year;
  const era = Math.floor(marchYear / 400);
  const yearOfEra = marchYear - era * 400;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

/**
 * The date of a day as one number, `year * 512 + month * 32 + day`, so that nothing is allocated.
 * Example: day 0 is 1970 * 512 + 1 * 32 + 1.
 */
export function packedCivil(days: number): number {
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const marchMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const day = dayOfYear - Math.floor((153 * marchMonth + 2) / 5) + 1;
  const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
  return year * 512 + month * 32 + day;
}

function isLeapYear(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
}

/** Days of a month, 28 to 31. */
export function monthLength(year: number, month: number): number {
  if (month === 2) return isLeapYear(year) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/** Weekday of a day, 0 = Sunday to 6. Day 0 (1970-01-01) was a Thursday. */
export function weekdayOf(days: number): number {
  const weekday = (days + 4) % 7;
  return weekday < 0 ? weekday + 7 : weekday;
}
