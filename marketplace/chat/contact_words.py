"""Contact details in words: handles, links, e-mail addresses, wallets, and offers to skip the escrow."""

import re
from collections.abc import Iterator

from marketplace.kernel.contact_detection import ContactKind

# Spellings of messengers and networks.
_WHATSAPP = r"(?:wh?at?'?s{0,2}\s?ap{1,2}|wh4ts\s?app|wazz?ap{1,2}|wasap{1,2}|wsapp?)"
_TELEGRAM = r"(?:tele\s?gram|telegrm|tele)"
_INSTAGRAM = r"(?:ig|i\.g\.?|insta\s?gram|insta|instag|the\sgram)"
_NETWORK = (
    rf"(?:{_INSTAGRAM}|snap\s?chat|snap|sc|twitter|x|{_TELEGRAM}|tg|tik\s?tok|tick\s?tok|face\s?book|fb|messenger"
    rf"|{_WHATSAPP}|wa|thread[sz]|discord|linkedin|signal|imo|bbm|pinterest|youtube|wechat|viber|skype|reddit|bereal"
    r"|lemon8|jiji|bluesky|gram)"
)
_PAYMENT = (
    r"(?:opay|palm\s?pay|kuda|monie\s?point|moniepoint|paypal|cash\s?app|chipper(?:\scash)?|bybit|binance(?:\spay)?|barter"
    r"|eversend|piggyvest|carbon|payoneer|skrill|zelle|venmo|eyowo|luno|roqqu|quidax|bitnob|kucoin|okx|coinbase|bitget|yellow\s?card|trust\s?wallet)"
)
_NAME = r"@?(?=[a-z0-9_.]{0,30}[a-z])[a-z0-9][a-z0-9_.]{2,30}"
# A name with a digit, an underscore or a point inside is no ordinary word.
_TELLING_NAME = r"@?(?=[a-z]{1,30}[0-9_.][a-z0-9_]|[0-9_]{1,10}[a-z])[a-z0-9_][a-z0-9_.]{2,30}"
_LONG_NETWORK = (
    rf"(?:{_WHATSAPP}|{_TELEGRAM}|{_INSTAGRAM}|snap\s?chat|snap|twitter|face\s?book|tik\s?tok|discord|linkedin|wechat"
    r"|viber)"
)
# Names of networks that are no ordinary words.
_HANDLE_NETWORK = (
    rf"(?:{_WHATSAPP}|{_TELEGRAM}|{_INSTAGRAM}|snap\s?chat|snap|sc|twitter|tg|tik\s?tok|face\s?book|fb|wa|discord"
    r"|linkedin|threads|wechat|viber|skype|youtube)"
)
_NO_ADJECTIVE = (
    r"(?!(?:the|a|an|not|no|very|so|good|bad|down|full|off|on|hacked|gone|new|old|better|best|private|public|that|this|it"
    r"|what|where|which|who|also|only|here|there|for|in|to|and|or|but|wey|my|your|dead|banned|working|active|free)\b)"
)
# Words after a colon that are no name.
_NO_ANSWER = r"(?!(?:yes|no|none|not|same|small|medium|large|available|coming|any|both|maybe|never)\b)"
_KIND_OF_NAME = r"(?:handle|page|user\s?name|user|name|id|tag|acc(?:oun)?t|profile|dm|link)"
_CHAT_HANDLE = re.compile(
    # my ig is ada_sells / ig handle na ada.sells / on snap as queen_bee
    rf"\b{_NETWORK}(?:\s{_KIND_OF_NAME})?(?:\s(?:is|na|be|as|called|dey|s))?[\s:;=\u2013-]{{1,3}}{_TELLING_NAME}"
    rf"|\b{_NETWORK}\s{_KIND_OF_NAME}\s?(?:is|na|be|:|=|-)\s?{_NAME}"
    # username on telegram na ada / ig: ada / outside: ada on telegram
    rf"|\b{_KIND_OF_NAME}\s(?:on|for|in|inside)\s{_NETWORK}\s?(?:is|na|be|:|=|-)\s?{_NAME}"
    rf"|\b{_HANDLE_NETWORK}\s?[:=]\s?{_NO_ANSWER}{_NAME}"
    rf"|[:;]\s?{_NAME}\son\s{_NETWORK}\b"
    # my snap is ada / ada na my ig / na ada be my snap / for ig as ada / on ig i'm ada / ada.x (ig) / ig - ada
    rf"|\bmy\s{_NETWORK}\s(?:{_KIND_OF_NAME}\s)?(?:is|na|be)\s(?:under\s)?{_NO_ANSWER}{_NO_ADJECTIVE}{_NAME}"
    rf"|\b{_NO_ADJECTIVE}{_NAME}\s(?:na|is|be)\smy\s{_NETWORK}\b"
    rf"|\b(?:on|for|inside)\s{_NETWORK}\s(?:as|i'?m|i\sam|my\sname\sis|we\sare|we'?re)\s{_NAME}"
    rf"|{_TELLING_NAME}\s{{1,3}}my\s{_NETWORK}\b"
    rf"|{_TELLING_NAME}\s?[(\[]\s?{_NETWORK}\s?[)\]]"
    rf"|\b{_LONG_NETWORK}\s?(?:-|->|=>|\u27a1|>)\s?@?{_NO_ANSWER}{_NAME}"
    rf"|\b(?:search|find|check|look\sfor|type)\s(?:for\s)?['\"\u2018\u201c][^'\"\u2019\u201d]{{3,30}}['\"\u2019\u201d]\s"
    rf"(?:page\s)?(?:on|for|inside)\s{_NETWORK}\b"
    rf"|\b{_NETWORK}\b[^.?!\n]{{0,30}}\b(?:search|find|type|check)\s{_NO_ANSWER}{_TELLING_NAME}"
    rf"|\b{_NETWORK}\b[^.?!\n]{{0,20}},\s?search\s{_NO_ANSWER}{_NAME}"
    rf"|{_TELLING_NAME}\s(?:on|in|for)\s(?:all|every|any)\s(?:my\s)?(?:platforms?|socials?|apps?|where)\b"
    rf"|\b(?:handle|username|user\sname)\b[^.?!\n]{{0,20}}\b(?:is|na|:)\s?{_TELLING_NAME}"
    rf"|\b[a-z0-9]{{3,20}}\s(?:underscore|under\sscore|dot)\s[a-z0-9]{{1,20}}\s(?:on|for|in)\s{_NETWORK}\b"
    rf"|\b{_NETWORK}\s(?:is\s|na\s)?[a-z0-9]{{2,20}}\s(?:underscore|under\sscore|dot)\s[a-z0-9]{{1,20}}\b"
    r"|\b[a-z][a-z0-9_.]{2,30}#\d{4}\b"
    # ada.closet tiktok / username ada99 / follow us @ ada / on x i be ada / telegram group: ada / ig ada closet
    rf"|{_TELLING_NAME}\s(?:on\s)?(?:ig|insta(?:gram)?|snap(?:chat)?|tik\s?tok|twitter|telegram|facebook)\b"
    rf"|\b[a-z]{{3,20}}\d{{1,4}}\s(?:on\s)?(?:ig|insta(?:gram)?|snap(?:chat)?|tik\s?tok|twitter|telegram|facebook)\b"
    r"|\b(?:user\s?name|handle)\s?[:=]?\s?(?:is\s|na\s)?@?[a-z]{3,20}[\d_.]{1,4}\b"
    rf"|\bfollow\s(?:me|us)\s@\s?{_NAME}"
    rf"|\b(?:on|for)\s{_NETWORK}\si\s(?:be|am|dey)\s{_NAME}|\bna\s{_NAME}\si\sdey\suse\b"
    rf"|\b{_HANDLE_NETWORK}\s(?:group|channel|page)\s?:?\s(?!is\b|na\b|of\b|for\b|talk\b|say\b|dey\b|where\b|we\b){_NAME}"
    r"|^\s*(?:ig|insta(?:gram)?|snapchat|tik\s?tok)\s(?!size|version|phone|handle|no\b|or\b|page|dey|is\b|filter|app)"
    r"[a-z0-9_.]{3,20}(?:\s[a-z0-9_.]{3,20})?\s*$"
    # twitter (ada) / check ada ig page / my ig ada_sells / ada thrifts on instagram, as the whole message
    rf"|\b{_HANDLE_NETWORK}\s?[(\[]\s?@?{_NO_ANSWER}{_NAME}\s?[)\]]"
    rf"|\bcheck\s(?!the\b|my\b|your\b|our\b|this\b|that\b){_NAME}\s{_NETWORK}\s(?:page|handle)\b"
    rf"|\bmy\s{_HANDLE_NETWORK}\s(?!(?:account|page|story|stories|status|posts?|app|group|dp|videos?|reels?|chats?)\b)"
    rf"{_NO_ADJECTIVE}(?!(?:get|don|got|has|have|no|was|were|dey|go|fit|can|will)\b){_NAME}\b"
    rf"|^\s*(?!.*\b(?:saw|it|is|was|see|seen|posted?|available|price|dey|ads?|advert|this|that|the|one|same|video|item|pics?)\b)"
    rf"(?:[a-z0-9_.']{{3,20}}\s){{1,3}}(?:on|for)\s{_HANDLE_NETWORK}\s*$"
    r"|\b(?:bbm|pin)\s?(?:pin\s?)?(?:is\s|na\s|:\s?)?(?=[a-f]{0,7}\d)(?=\d{0,7}[a-f])[0-9a-f]{8}\b"
    rf"|\b(?:find|see|know)\sme\sas\s{_NAME}\son\s[a-z]{{3,20}}\b"
    # come to whatsapp / let's move to telegram / continue for whatsapp
    rf"|\b(?:move|switch|come|continue|go|yarn|talk|chat|gist|shift|carry\son)\b[^.?!\n]{{0,20}}\b(?:to|on|for|inside|over)\s"
    rf"{_LONG_NETWORK}\b(?!\s?\?)|\bcome\s(?:my\s)?{_LONG_NETWORK}\b|\b{_LONG_NETWORK}\b[^.?!\n]{{0,20}}\badd\sme\b"
    rf"|\bconnect\swith\s(?:me|us)\son\s{_LONG_NETWORK}\b|\b(?:signal|telegram|whats\s?app)\sme\b"
    # dm me on ig / text us for whatsapp
    rf"|\b(?:text|chat|message|dm|inbox|call|buzz|add|ping|reach|hit|write|holla|follow|find|meet|contact)\s(?:me|us)\s"
    rf"(?:up\s)?(?:on|via|for|through|by|inside)\s(?:my\s|our\s)?{_NETWORK}\b"
    rf"|\bmy\s{_NETWORK}(?:\s{_KIND_OF_NAME})?\s?(?:na|:|=)\s?{_NAME}"
    # ada_sells on ig / follow ada closet on instagram
    rf"|{_TELLING_NAME}\s(?:on|for|inside|@)\s(?:my\s)?{_NETWORK}\b"
    rf"|\b(?:search|find|follow|add|look\sup|check\sout|check|dm|hit\sup|type)\s"
    rf"(?!(?:me|us|it|am|this|that|them|you|your|my|the|out|d)\b)"
    rf"(?:for\s)?{_NAME}(?:\s[a-z0-9_.]{{2,20}}){{0,2}}\s(?:on|for|inside)\s{_NETWORK}\b"
    rf"|\b(?:follow|add|dm|find|reach|text|message|search|hit)\s(?:me|us)?\s?(?:up\s)?(?:on|for|via|at)?\s?{_NETWORK}?"
    rf"\s?[:@]\s?{_TELLING_NAME}"
    rf"|(?<![a-z0-9])@[a-z_](?=[a-z0-9_.]{{2,30}})[a-z0-9_.]{{2,30}}"
)
_AT_A_PLACE = re.compile(
    r"(?<![a-z0-9])@\s?(?:the|my|your|moremi|gate|hostel|hall|library|lib|faculty|dept|sub|cafe|school|campus|block|room)\b"
)
_PAYMENT_HANDLE = re.compile(
    rf"\b{_PAYMENT}\s?(?:{_KIND_OF_NAME}\s?)?(?:\sis\s|\sna\s|:|=|@)\s?{_NO_ADJECTIVE}{_NAME}"
    rf"|\b{_PAYMENT}\s(?:handle|user\s?name|id|tag|acc(?:oun)?t|wallet)\s{_NO_ADJECTIVE}{_NAME}"
    rf"|\b(?:barter|eversend|chipper)\s@?{_NO_ADJECTIVE}[a-z][a-z0-9_.]{{4,30}}\b"
    rf"|\b(?:cash\s?tag|opay\s?tag|kuda\s?tag|pay\s?tag)\s?(?:is|na|:|=|-)?\s?[@$]?{_NAME}"
    rf"|\b{_PAYMENT}\s(?:id|uid|number)\s?(?:is|na|:|=|-)?\s?\d{{6,12}}\b"
    # Addresses of crypto wallets: Ethereum, Bitcoin (bech32 and base58), Tron.
    r"|\b0x[0-9a-f]{40}\b|\bbc1[0-9a-z]{25,60}\b"
    r"|\b[13t](?=[a-z]{0,33}\d)(?=[0-9a-f]{0,33}[g-z])[0-9a-z]{26,34}\b"
)
# Invitations to pay without the escrow.
_DIRECT_PAYMENT = re.compile(
    r"\b(?:pay|send|transfer|drop|do|deal|buy|settle)\b[^.?!\n]{0,40}"
    r"\b(?:outside\s(?:of\s)?(?:this|the|dis)?\s?(?:app|platform|site|escrow)"
    r"|direct(?:ly)?\s(?:to|into|for|inside)\s(?:me|my\s(?:acc(?:oun)?t|acct|aza|opay|bank|kuda|palm\s?pay|wallet)))\b"
    r"|\b(?:pay|transfer|send\s(?:the\s)?money)\b[^.?!\n]{0,20}\b(?:me|us)\s(?:direct(?:ly)?|cash)\b"
    r"|\btransfer\s(?:am\s)?(?:direct(?:ly)?|to\sme)\b|\bno\suse\s(?:the\s|this\s)?app\b|\bskip\s(?:the|this)\sapp\b"
    r"|\bdirect\s(?:bank\s)?transfer\b|\bpay(?:ment)?\s(?:me\s|us\s)?outside\b|\boutside\spayment\b"
    r"|\boff[\s-](?:the\s|this\s)?(?:app|platform)\b|\bpay\sdirect(?:ly)?\b(?!\s(?:on|in|for|through|inside)\s(?:the\s|this\s)?app)"
    r"|\bdo\s(?:the\s|this\s|am\s)?(?:deal\s|business\s)?outside\b"
    r"|\b(?:give|send|drop|collect|forward)\b[^.?!\n]{0,15}\b(?:my|your|una|you)\s(?:acc(?:oun)?t|acct|bank)\s(?:number|no|details?|info)\b"
    r"|\bno\s(?:need\s(?:for|of)|need)\sescrow\b|\bcancel\b[^.?!\n]{0,20}\bpay\s(?:me|cash)\b"
    r"|\b(?:without|skip|bypass|avoid)\s(?:the\s|this\s)?(?:escrow|app|platform)\b"
)
# Requests for contact details, invitations to groups, and offers of payments that cannot be held.
_REQUEST = re.compile(
    rf"\b(?:send|drop|give|share|forward|what'?s|what\sis|wetin\sbe|wetin\sna|need|want|get)\s(?:me\s|us\s)?(?:your|ur|una|you)\s"
    rf"(?:{_LONG_NETWORK}(?!\s(?:price|phone|version|app))\b|(?:phone\s)?(?:number|line|digits|contact)(?=\s*(?:$|[.,?!]|make|so|let|abeg|pls|please|na)))"
    r"|\b(?:your|ur)\s(?:phone\s)?(?:number|digits)\s(?:abeg|pls|please)\b"
    r"|\b(?:give|take|use)\s(?:me\s)?(?:my|your)\sline\b"
    rf"|\bjoin\s(?:my|our|the)\s{_LONG_NETWORK}\s(?:group|channel|page|broadcast|list)\b"
    rf"|\bmy\s{_LONG_NETWORK}\s(?:line|number|no|contact)\b"
    r"|\b(?:my|the)\s(?:number|contact|link|handle|details|line)\b[^.?!\n]{0,20}\bmy\s(?:bio|status|dp|profile|pfp)\b"
    rf"|\bdm\s(?:me\s|us\s)?for\s(?:my\s|our\s)?(?:{_LONG_NETWORK}\s)?(?:number|contact|line|digits)\b"
    rf"|\bslide\s(?:in)?(?:to|in|for)?\s?(?:to\s)?my\s(?:dms?|{_LONG_NETWORK})\b|\bmy\sdms?\s(?:is|are|dey)?\s?open\b"
    rf"|\breach\sout\s(?:to\sme\s)?(?:on|via|through)\s{_LONG_NETWORK}\b"
    rf"|\b{_LONG_NETWORK}\s(?:catalog(?:ue)?|link)\b(?!\sof)"
    rf"|\b(?:send|say|drop|voice\snote)\s(?:me\s)?(?:a\s)?(?:hi\s|hello\s|message\s|text\s|dm\s)?(?:on|for|via)\s{_LONG_NETWORK}\b"
    r"|\bfriend\srequest\b|\bsnap\s?code\b"
    rf"|\b{_WHATSAPP}\s(?:call|text|message|chat|ping)\s(?:me|us)\b|\b{_WHATSAPP}\s(?:only|preferred|is\s(?:faster|better))\b"
    rf"|\blook\s(?:me\sup|for\s(?:me|us))\s(?:on|for|inside)\s{_LONG_NETWORK}\b"
    rf"|\b(?:view|check|see|on|for)\smy\s(?:{_WHATSAPP}|wa)\sstatus\b|\bmy\s(?:{_WHATSAPP}|wa)\sstatus\sget\b"
    r"|\bsave\smy\s(?:number|contact|line)\b"
    r"|\blink\sin\s(?:my\s)?bio\b|\b(?:check|see|dey)\smy\s(?:bio|dp)\b"
)
_OTHER_MONEY = re.compile(
    r"\b(?:pay|send|drop|accept|collect|take)\s(?:me\s)?(?:with\s|in\s|by\s|via\s)?(?:usdt|usdc|btc|bitcoin|eth|bnb|ltc|doge(?:coin)?|crypto|gift\s?cards?)\b"
    r"|\b(?:usdt|usdc|btc|bitcoin|eth(?:ereum)?|trc-?20|erc-?20|bep-?20|tron|solana|sol|wallet)\b[^\n]{0,30}"
    r"\b(?=[a-z]{0,40}\d)(?=\d{0,40}[a-z])[a-z0-9]{10,64}\b"
    r"|\b0x[0-9a-f]{8,64}\b"
    rf"|\b(?:pay|send|settle|cash\sapp)\s(?:me|us)\s(?:through|via|with|by|on|\$)\s?(?:{_PAYMENT}|\d)"
    rf"|\b(?:send|pay|transfer)\s(?:am\s|it\s)?(?:through|via)\s(?:my\s)?{_PAYMENT}\b(?!\s(?:on|in)\sthe\sapp)"
    r"|\b(?:tether|usdt|btc|crypto|wallet)\saddress\b|\b(?:pay|send)\s(?:to\s)?this\swallet\b|\b\d+\s?usdt\b"
    r"|\b(?:itunes|amazon|apple|steam)\s(?:gift\s)?cards?\b[^.?!\n]{0,10}(?:$|\b(?:only|fit|as|for|accepted)\b)"
    r"|\b(?:airtime|recharge\scard)\b[^.?!\n]{0,20}\b(?:as\spayment|instead)\b|\bpay\sme\s(?:in|with)\sairtime\b"
    r"|\b(?:straight|direct(?:ly)?)\s(?:to|into)\smy\b(?!\s(?:room|hostel|hall|door|place|house|gate|block|flat))"
    r"|\bpay\s(?:me|us)\sstraight\b|\b(?:take|write|collect|send|ask\sfor|drop)\s(?:you\s)?my\s(?:acc(?:oun)?t|acct)\b"
    r"|\bmy\s(?:acc(?:oun)?t|acct)\s(?:number|no|details?)\s(?:is|na|:|be)"
    rf"|\bna\smy\s{_PAYMENT}\syou\sgo\b|\b(?:my|our)\s(?:paystack|flutterwave|payment)\slink\b|\bwestern\sunion\b"
    r"|\bcash\sonly\b"
    r"|\bcash\s?app\sme\b|\b(?:drop|send|share|give)\s(?:me\s|us\s)?(?:your\s|my\s|you\smy\s|una\s)?aza\b|\baza\s(?:please|pls|abeg)\b"
    r"|\b(?:cash|transfer)\s(?:instead\sof|no\sbe|not)\s(?:the\s|this\s)?app\b|\bprefer\scash\b"
    rf"|\b{_PAYMENT}\s(?:number\s)?(?:is|na|same\sas|be)\s(?:my|the\ssame)\s(?:phone\s)?number\b|\bbank\sdetails\s?:"
    rf"|\b(?:pay|send|transfer|drop|forward|deposit)\b[^.?!\n]{{0,20}}\b(?:to|into|for|inside)\s(?:my|our)\s"
    rf"(?:{_PAYMENT}|acc(?:oun)?t|aza|bank)\b"
    r"|\b(?:pay|send|transfer|drop|forward)\s(?:it\s|am\s|the\smoney\s|money\s|cash\s)?(?:to|into)\s(?:the\s)?"
    rf"{_PAYMENT}\b"
    r"|\b(?:pay|send|transfer)\b[^.?!\n]{0,20}\b(?:my|our)\s(?:personal|own|sister'?s?|brother'?s?|friend'?s?|mum'?s?|mama)\s"
    r"(?:acc(?:oun)?t|acct|aza|bank|opay|kuda|palm\s?pay)\b"
)
_CHAT_EMAIL = re.compile(
    r"\b(?:gmail|yahoo|hotmail|outlook|email|e-mail|mail)\s?(?:address|addy|id|acct)?\s?(?:is|na|:|=)\s?"
    rf"{_TELLING_NAME}"
    r"|\b[a-z0-9._-]{3,40}\s?(?:@|\(at\)|\[at\]|\bat\b)\s?(?:gmail|gmial|yahoo|ymail|hotmail|outlook|icloud|proton)\b"
    r"|\b[a-z0-9._-]{3,40}\s(?:gmail|yahoo|hotmail|outlook|icloud)\s?(?:dot|\.|\s)\s?(?:com|co|ng)\b"
    rf"|\b(?:gmail|yahoo\s?mail|proton\s?mail|hotmail|outlook|icloud)\s?(?:is|na|:|=)\s?{_NO_ANSWER}{_NAME}"
    r"|\b[a-z][a-z0-9._]{3,40}@(?=\s|$)"
    r"|\b[a-z0-9._-]{3,40}\s?(?:@|\(at\)|\[at\]|\sat\s)\s?[a-z0-9-]{2,40}\s?(?:\.|\(dot\)|\[dot\]|\sdot\s)\s?[a-z]{2,12}\b"
)
_CHAT_LINK = re.compile(
    r"\bh(?:tt|xx)ps?\s?[:/]"
    r"|\b[a-z0-9-]{3,40}\.(?:store|shop|site|online|xyz|africa|link|website|app|page|dev|bio|live)(?![a-z0-9.])"
    r"|\b[a-z0-9-]{3,40}\s?(?:\(dot\)|\[dot\]|\bdot\b|\{dot\})\s?(?:com|ng|org|net|co|me|shop|store|site|xyz|io|link)\b"
    r"|\b[a-z0-9-]{3,40}\sdotcom\b"
    r"|\b(?=[0-9-]{0,39}[a-z])[a-z0-9-]{3,40}(?:\s\.\s?|\s?\[\s?\.\s?\]\s?|\s?\(\s?\.\s?\)\s?)(?:com|ng|org|net)\b"
    r"|\b[a-z][a-z0-9-]{4,40},com\b"
    r"|\b(?:wa|t|linktr|bit|tinyurl|instagram|facebook|fb|chat\.whatsapp|forms)\s?\.\s?(?:me|ee|ly|com|gle)\b"
    r"|\b(?:wa|linktr)\s?(?:dot|\(dot\))\s?(?:me|ee)\b"
)


def detect_in_words(folded: str) -> Iterator[ContactKind]:
    """Find details that are written in words.

    :param folded: a result of ``normalize_text``
    """
    text = _AT_A_PLACE.sub(" ", folded)
    if _CHAT_HANDLE.search(text) or _PAYMENT_HANDLE.search(text):
        yield ContactKind.HANDLE
    if _CHAT_EMAIL.search(text):
        yield ContactKind.EMAIL
    if _CHAT_LINK.search(_PRODUCT_NAMES.sub(" ", text)):
        yield ContactKind.LINK
    if _REQUEST.search(text):
        yield ContactKind.HANDLE
    if _DIRECT_PAYMENT.search(text) or _OTHER_MONEY.search(text):
        yield ContactKind.ACCOUNT


_PRODUCT_NAMES = re.compile(r"\b(?:asp|vb|ado|ml|paint)\.net\b|\b(?:cash|play|app)\s?\.?\s?(?:store|app)\b")
