"""PDF documents of a page."""

from __future__ import annotations


def pdf_with_links(*urls: str) -> bytes:
    """A document whose one page has an annotation for each URL."""
    annotations = " ".join(
        f"<</Type/Annot/Subtype/Link/Rect[0 {n} 9 {n + 1}]/A<</S/URI/URI({url})>>>>" for n, url in enumerate(urls)
    )
    return _document(
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Annots[{annotations}]>>",
    )


def pdf_with_text(text: str, title: str = "") -> bytes:
    """A document whose one page says this, in Latin letters."""
    shown = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    stream = f"BT /F1 12 Tf 9 50 Td ({shown}) Tj ET"
    return _document(
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 999 99]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        f"<</Length {len(stream)}>>stream\n{stream}\nendstream",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        *([f"<</Title({title})>>"] if title else []),
        more="/Info 6 0 R" if title else "",
    )


def _document(*objects: str, more: str = "") -> bytes:
    document = b"%PDF-1.4\n"
    offsets = []
    for number, each in enumerate(objects, 1):
        offsets.append(len(document))
        document += f"{number} 0 obj\n{each}\nendobj\n".encode()
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + "".join(f"{at:010} 00000 n \n" for at in offsets)
    trailer = f"trailer\n<</Size {len(objects) + 1}/Root 1 0 R{more}>>\nstartxref\n{len(document)}\n%%EOF\n"
    return document + (table + trailer).encode()
