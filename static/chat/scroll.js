// Follows the newest text down, lets go when the person scrolls up, and offers the way back.

const NEAR_PX = 32;

export class Scroll {
  #box = document.querySelector("[data-scroll]");
  #jump = document.querySelector("[data-jump]");
  #following = true;
  #lastTop = 0;

  constructor() {
    this.#box.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#jump.addEventListener("click", () => this.follow());
    const watch = new ResizeObserver(() => this.#grown());
    watch.observe(this.#box);
    watch.observe(this.#box.firstElementChild);
    this.follow();
  }

  /** Go to the end and stay there. */
  follow() {
    this.#following = true;
    this.#grown();
  }

  get #below() {
    return this.#box.scrollHeight - this.#box.clientHeight - this.#box.scrollTop;
  }

  #scrolled() {
    const up = this.#box.scrollTop < this.#lastTop;
    this.#lastTop = this.#box.scrollTop;
    if (this.#below <= NEAR_PX && !up) this.#following = true;
    if (up && this.#below > 1) this.#following = false;
    this.#refresh();
  }

  #grown() {
    if (this.#following) this.#box.scrollTop = this.#box.scrollHeight;
    this.#lastTop = this.#box.scrollTop;
    this.#refresh();
  }

  #refresh() {
    this.#jump.hidden = this.#following || this.#below <= NEAR_PX;
  }
}
