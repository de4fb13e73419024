// Tells the server the browser's time zone, so that "today" is the reader's own.

const YEAR_S = 31_536_000;
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) {
  document.cookie = `nehir_timezone=${zone}; path=/; max-age=${YEAR_S}; samesite=lax`;
}
